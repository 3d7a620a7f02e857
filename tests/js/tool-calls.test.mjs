// Calls that are sent again: for the engine's template, or as text between tags of one's own.

import assert from "node:assert/strict";
import { test } from "node:test";
import { addDelta, callsIn, turns } from "../../web/examples/chat/parts.js";
import { callReader, readToolCalls, turnsOf, withCalls } from "../../web/src/tool-calls.js";

const calls = [
  { id: "1", name: "look", input: { at: 1 }, result: ["é"] },
  { id: "2", name: "go", input: undefined },
];

test("calls and results are those of OpenAI's API", () => {
  assert.deepEqual(withCalls("assistant", "One moment.", calls, undefined), [
    {
      role: "assistant",
      content: "One moment.",
      tool_calls: [
        { id: "1", type: "function", function: { name: "look", arguments: '{"at":1}' } },
        { id: "2", type: "function", function: { name: "go", arguments: "{}" } },
      ],
    },
    { role: "tool", content: '["é"]', tool_call_id: "1" },
  ]);
  assert.deepEqual(withCalls("user", "hi", [], true), [{ role: "user", content: "hi" }]);
});

test("with tags of one's own they are text between them", () => {
  const [message, answer] = withCalls("assistant", "", calls.slice(0, 1), ["[", "]"]);
  assert.equal(message?.content, '[\n{"name":"look","arguments":{"at":1}}\n]');
  assert.equal(message?.tool_calls, undefined);
  assert.equal(answer?.role, "tool");
});

test("text or a step after an answered call is a message of its own, behind the result", () => {
  const [answered, open] = calls;
  const roles = (parts) => {
    const turns = turnsOf("assistant", undefined);
    for (const part of parts)
      if (part === "step") turns.step();
      else if (typeof part === "string") turns.say(part);
      else turns.call(part);
    return turns
      .end()
      .map(({ role, content, tool_calls: made = [] }) => `${role} ${content} ${made.length}`);
  };
  const result = 'tool ["é"] 0';
  for (const [parts, expected] of [
    [
      ["step", " Look. ", answered, "step", "\nIt is é."],
      ["assistant Look.  1", result, "assistant It is é. 0"],
    ],
    [
      ["Look.", answered, "It is é."],
      ["assistant Look. 1", result, "assistant It is é. 0"],
    ],
    [
      [answered, "step", answered],
      ["assistant  1", result, "assistant  1", result],
    ],
    [
      [answered, answered, "step", " "],
      ["assistant  2", result, result],
    ],
    [["a", open, "b"], ["assistant ab 1"]],
    [[], ["assistant  0"]],
  ])
    assert.deepEqual(roles(parts), expected);
});

test("calls between tags are the same however their text comes", () => {
  const text = ' {"name":"a","arguments":{"x":"}}\\\\\\""}} {"name":"b"}\n[1] {"na';
  const whole = readToolCalls(text);
  assert.deepEqual(
    whole.map((call) => call.name ?? call.text),
    ["a", "b", "[1]", '{"na'],
  );
  for (let size = 1; size < 5; size++) {
    const read = callReader();
    let calls;
    for (let at = 0; at < text.length; at += size) calls = read(text.slice(at, at + size));
    assert.deepEqual(calls, whole);
  }
});

test("calls beside each other, in an array, and what is no call", () => {
  const names = (text) => readToolCalls(text).map(({ name }) => name);
  assert.deepEqual(names('{"name":"a","arguments":{"x":"}}\\""}}{"name":"b","parameters":{}}'), [
    "a",
    "b",
  ]);
  assert.deepEqual(names('[{"name":"a"},{"name":"b"}]'), ["a", "b"]);
  assert.deepEqual(readToolCalls("<function=x>"), [{ text: "<function=x>" }]);
  assert.deepEqual(readToolCalls('{"name":"a","arg'), [{ text: '{"name":"a","arg' }]);
  assert.deepEqual(readToolCalls(" \n"), []);
  assert.deepEqual(names('{"name":"a"}}\n{"name":"b"}'), ["a", undefined, "b"]);
});

test("the example of a chat shows each call in a format, and sends it back with an answer", () => {
  const channel = "tool_call";
  const parts = [];
  for (const delta of [
    { channel: "content", text: "I " },
    { channel: "content", text: "look." },
    { channel, text: "", call: 0, name: "weather" },
    { channel, text: '{"city":', call: 0 },
    { channel, text: '"Bonn"}', call: 0, complete: true },
    { channel, text: "", call: 1, name: "weather", id: "c1" },
    { channel, text: '{"city":"Kiel"}', call: 1, complete: true },
    { channel, text: "", call: 2, name: "weather" },
    { channel, text: '{"ci', call: 2 },
  ])
    addDelta(parts, delta);
  const shown = parts.slice(1).flatMap(callsIn);
  assert.deepEqual(
    shown.map(({ name, arguments: given }) => [name, given]),
    [
      ["weather", { city: "Bonn" }],
      ["weather", { city: "Kiel" }],
      [undefined, undefined], // it was cut short
    ],
  );
  const made = (id, city) => ({
    id,
    type: "function",
    function: { name: "weather", arguments: JSON.stringify({ city }) },
  });
  assert.deepEqual(turns([{ role: "assistant", parts }]), [
    {
      role: "assistant",
      content: "I look.",
      tool_calls: [made("call-0-0", "Bonn"), made("c1", "Kiel")],
    },
    ...["call-0-0", "c1"].map((id) => ({
      role: "tool",
      content: "This page does not run tools.",
      tool_call_id: id,
    })),
  ]);
});

test("the example of a chat reads calls between tags as before", () => {
  const text = '[{"name":"a"},{"name":"b"}]';
  const parts = [
    { channel: "reasoning", text: "hm" },
    { channel: "tool_call", text },
  ];
  assert.deepEqual(
    callsIn(parts[1]).map(({ name }) => name),
    ["a", "b"],
  );
  assert.deepEqual(
    turns([
      { role: "user", parts },
      { role: "user", parts: [] },
    ]),
    [{ role: "user", content: `<tool_call>${text}</tool_call>` }],
  );
});
