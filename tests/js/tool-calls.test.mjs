// Calls that are sent again: for the engine's template, or as text between tags of one's own.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withCalls } from "../../web/src/tool-calls.js";

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
