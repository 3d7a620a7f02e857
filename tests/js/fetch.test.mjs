// The body of a fetch as deltas: every cut of an event stream gives the same text. Without Python,
// in Node.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readAnswer, ServerSentEvents } from "../../web/src/fetch.js";
import { standIn } from "./stand-in.mjs";
import { listOf, until } from "./streams.mjs";

// Two, three and four bytes, and a mark that a decoder could drop.
const TEXT = "ï好👩\ufeff";

const bytesOf = (text) => new TextEncoder().encode(text);
const chunk = (delta, finish = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}`;
const eventsOf = (lines) => lines.map((line) => `${line}\n\n`).join("");
const response = (given, type = "text/event-stream; charset=utf-8") =>
  new Response(given, { headers: type ? { "content-type": type } : {} });
const sent = (...lines) => response(eventsOf(lines));

/** A body that comes in parts. @param {Uint8Array} bytes @param {number[]} cuts */
const body = (bytes, cuts) =>
  ReadableStream.from([0, ...cuts].map((at, n) => bytes.subarray(at, cuts[n])));

/** A body that stays open after these lines; `cancelled` says whether its reader has left. */
class OpenBody extends ReadableStream {
  cancelled = false;

  constructor(...lines) {
    super({
      // Without lines, nothing comes at all.
      start: (controller) => lines.forEach((line) => controller.enqueue(bytesOf(`${line}\n\n`))),
      cancel: () => void (this.cancelled = true),
    });
  }
}

const LOST = new TypeError("terminated");

/** A body whose connection breaks after these parts. @param {string[]} parts */
const losing = (...parts) =>
  new ReadableStream({
    pull(controller) {
      const part = parts.shift();
      if (part === undefined) controller.error(LOST);
      else controller.enqueue(bytesOf(part));
    },
  });

/** Read to the end: the text of each channel, and the reason. @param {Response} answer */
async function read(answer) {
  const got = { content: "", reasoning: "", tool_call: "", parts: 0 };
  const from = readAnswer(answer);
  for (;;) {
    const { done, value } = await from.next();
    if (done) return { ...got, reason: value };
    got[value.channel] += value.text;
    got.parts++;
    assert.ok(!/\p{Surrogate}/u.test(value.text), "half a pair was given");
  }
}

test("events are the same however their bytes are cut", async () => {
  const stream =
    "\ufeff: a comment\r\nevent: x\rid: 7\ndata: one\r\ndata:two é\r\n\r\n\n\ndata\n\ndata: 你\n";
  const expected = [
    { event: "x", data: "one\ntwo é", id: "7" },
    { event: "message", data: "", id: "7" },
    { event: "message", data: "你", id: "7" },
  ];
  const bytes = bytesOf(stream);
  const cuts = [[], [...bytes.keys()].slice(1)];
  for (let one = 1; one < bytes.length; one++)
    for (let two = one; two < bytes.length; two += 3) cuts.push([one, two]);
  for (const at of cuts) {
    const events = body(bytes, at).pipeThrough(new ServerSentEvents());
    assert.deepEqual(await listOf(events), expected, `cut at ${at}`);
  }
});

test("an answer of an engine is the same text at every cut and with every line end", async () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const lines = [
      ": ping",
      chunk({ role: "assistant", content: null }),
      ...[...TEXT].map((letter) => chunk({ content: letter })),
      chunk({}, "stop"),
      "data: [DONE]",
    ];
    const bytes = bytesOf(eventsOf(lines).replaceAll("\n", end));
    for (let at = 0; at < bytes.length; at++) {
      const got = await read(response(body(bytes, [at])));
      assert.equal(got.content, TEXT);
      assert.equal(got.reason, "stop");
    }
    assert.equal((await read(response(body(bytes, [...bytes.keys()])))).content, TEXT);
  }
});

test("a character that an engine wrote as two halves in two events is one character", async () => {
  const got = await read(
    sent(
      String.raw`data: {"choices":[{"delta":{"content":"a\ud83d"}}]}`,
      String.raw`data: {"choices":[{"delta":{"content":"\ude00b"},"finish_reason":"stop"}]}`,
    ),
  );
  assert.equal(got.content, "a😀b");
});

test("a half that stays alone is one replacement character, at once or at the end", async () => {
  const halves = String.raw`data: {"choices":[{"delta":{"content":"\udc00a\ud83d"}}]}`;
  const got = await read(sent(halves, "data: [DONE]"));
  assert.equal(got.content, "\ufffda\ufffd");
});

test("a tool call comes with its number and name, and its arguments as they grow", async () => {
  const call = (index, its) => chunk({ tool_calls: [{ index, function: its }] });
  const lines = [
    call(0, { name: "look", arguments: "" }),
    call(0, { arguments: '{"where": "\ud83d' }),
    call(0, { arguments: '\udc4b京"}' }),
    call(1, { name: "go" }),
    chunk({}, "tool_calls"),
  ];
  const channel = "tool_call";
  assert.deepEqual(await listOf(readAnswer(sent(...lines))), [
    { channel, text: "", call: 0, name: "look" },
    { channel, text: '{"where": "', call: 0 },
    { channel, text: '👋京"}', call: 0 },
    { channel, text: "", call: 0, complete: true },
    { channel, text: "", call: 1, name: "go" },
    { channel, text: "{}", call: 1, complete: true },
  ]);
  // A limit cuts arguments, or the call before them.
  for (const [first, reason, whole] of [
    [call(0, { name: "look", arguments: '{"where": "K' }), "length", false],
    [call(0, { name: "look", arguments: '{"where": "K' }), "stop", false],
    [call(0, { name: "look" }), "length", false],
    [call(0, { name: "look", arguments: "{}" }), "length", true],
    [call(0, { name: "grep", arguments: "free text" }), "tool_calls", true],
    [call(0, { name: "grep", arguments: "free te" }), "length", false],
  ]) {
    const ended = await listOf(readAnswer(sent(first, chunk({}, reason))));
    const expected = whole ? [undefined, true] : [undefined];
    const said = ended.map(({ complete }) => complete);
    assert.deepEqual(said, expected, `${first} ${reason}`);
  }
  const cut = readAnswer(sent(...lines.slice(0, 2)));
  await assert.rejects(async () => {
    for await (const delta of cut) assert.ok(!delta.complete);
  }, /ended before the answer did/);
});

test("pieces of two calls that alternate go to the calls of their numbers", async () => {
  const call = (index, its) => ({ index, function: its });
  const both = (one, two) => chunk({ tool_calls: [call(0, one), call(1, two)] });
  for (const lines of [
    [
      both({ name: "look", arguments: "" }, { name: "go", arguments: "" }),
      both({ arguments: '{"at": "\ud83d' }, { arguments: '{"to": "\ud83d' }),
      both({ arguments: '\udc4b"}' }, { arguments: '\ude00"}' }),
    ],
    [
      chunk({ tool_calls: [call(0, { name: "look" })] }),
      chunk({ tool_calls: [call(1, { name: "go" })] }),
      chunk({ tool_calls: [call(0, { arguments: '{"at": "👋"}' })] }),
      chunk({ tool_calls: [call(1, { arguments: '{"to": "😀"}' })] }),
    ],
  ]) {
    const calls = [];
    const answer = readAnswer(sent(...lines, chunk({}, "tool_calls")));
    for await (const { call, name = "", text, complete = false } of answer) {
      const before = calls[call] ?? { name: "", text: "" };
      calls[call] = { name: before.name + name, text: before.text + text, complete };
    }
    assert.deepEqual(calls, [
      { name: "look", text: '{"at": "👋"}', complete: true },
      { name: "go", text: '{"to": "😀"}', complete: true },
    ]);
  }
});

test("events that keep a connection open, or follow the end, are no text and no error", async () => {
  const whole = chunk({ content: "é" }, "stop");
  const got = { content: "é", reasoning: "", tool_call: "", parts: 1, reason: "stop" };
  for (const idle of [
    "event: ping\ndata:",
    "data: [HEARTBEAT]",
    "event: ping\ndata: now",
    "data: ",
  ])
    assert.deepEqual(await read(sent(idle, whole)), got);
  for (const end of ["data: [DONE] \n\n", "data: [DO", "event: end\ndata: bye\n\n"])
    assert.equal((await read(response(`${whole}\n\n${end}`))).content, "é");
  const langChain = `data: ${JSON.stringify({ type: "AIMessageChunk", content: "é" })}`;
  for (const first of [chunk({ content: "é" }), langChain]) {
    const failed = sent(first, "event: error\ndata: out of memory");
    await assert.rejects(read(failed), { kind: "server", message: "out of memory" });
    await assert.rejects(read(response(`${first}\n\ndata: {"ty`)), { message: /not JSON/ });
  }
});

test("an error that the server has named stays the reason if the connection breaks then", async () => {
  const named = 'data: {"error":{"message":"out of memory","code":400}}';
  const lost = losing(eventsOf([chunk({ content: "a" }), named]));
  await assert.rejects(read(response(lost)), { message: "out of memory", code: 400 });
});

test("a limit that cuts the last call leaves the one before it whole", async () => {
  const call = (index, its) => chunk({ tool_calls: [{ index, function: its }] });
  const lines = [call(0, { name: "look" }), call(1, { name: "go", arguments: '{"x":' })];
  const deltas = await listOf(readAnswer(sent(...lines, chunk({}, "length"))));
  const whole = deltas.filter(({ complete }) => complete).map(({ call }) => call);
  assert.deepEqual(whole, [0]);
});

test("a reader that leaves cancels the body, even if it has not begun or nothing comes", async () => {
  await readAnswer(Promise.reject(new TypeError("failed"))).return(undefined);
  for (const [begins, waits, type] of [
    [false, true, undefined],
    [true, true, undefined],
    [true, false, undefined],
    [true, true, ""],
  ]) {
    const silent = new OpenBody();
    const answer = readAnswer(Promise.resolve(response(silent, type)));
    const next = begins ? answer.next() : undefined;
    if (waits) await new Promise(setImmediate);
    await answer.return(undefined);
    assert.deepEqual(await next, begins ? { done: true, value: undefined } : undefined);
    await new Promise(setImmediate);
    assert.ok(silent.cancelled);
  }
});

test("a stream that breaks off says so, after all that had come", async () => {
  const half = `${chunk({ content: "half" })}\n\n`;
  for (const [rest, words] of [
    ["", /ended before/],
    ['data: {"choi', /not JSON/],
    ['data: {"error":{"message":"out of memory","code":500}}\n\n', /out of memory/],
  ]) {
    const answer = readAnswer(response(half + rest));
    assert.equal((await answer.next()).value.text, "half");
    await assert.rejects(answer.next(), { name: "DetokError", message: words });
  }
});

test("an answer of an unknown shape is named by the type or the keys of its first object", async () => {
  for (const [events, named] of [
    [[7, { type: "pulse", n: 1 }, { type: "beat" }], "pulse"],
    [[{ beat: 1, n: 2 }], "beat, n"],
  ]) {
    const lines = events.map((event) => `data: ${JSON.stringify(event)}`);
    const message = new RegExp(`has an unknown shape \\(${named}\\)`);
    await assert.rejects(read(sent(...lines)), { kind: "server", message });
  }
});

test("a refusal is the server's own sentence, and asking again may help if it is busy or broken", async () => {
  for (const [code, isRetryable] of [
    [400, false],
    [404, false],
    [429, true],
    [500, true],
    [503, true],
  ]) {
    const refusal = new Response('{"error":{"message":"no such model"}}', { status: code });
    const message = `The server answered HTTP ${code}: no such model`;
    const expected = { name: "DetokError", code, message, isRetryable };
    await assert.rejects(readAnswer(refusal).next(), expected);
  }
});

test("an error in the stream has the server's code, and says whether asking again may help", async () => {
  for (const [error, code, isRetryable] of [
    [{ message: "too long", code: 400 }, 400, false],
    [{ message: "busy", code: 429 }, 429, true],
    [{ message: "broken", code: 500 }, 500, true],
    [{ message: "lost" }, undefined, true],
  ])
    await assert.rejects(read(sent(`data: ${JSON.stringify({ error })}`)), {
      message: error.message,
      code,
      isRetryable,
    });
});

test("the name of an event tells an error, an end and other things from text", async () => {
  const named = (...events) =>
    sent(...events.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}`));
  const told = [
    ["connected", "ok"],
    ["data", "Hel"],
    ["title", "A greeting"],
    ["data", "lo"],
    ["replace_response", { text: "Sorry" }],
  ];
  assert.equal((await read(named(...told, ["done", {}]))).content, "Hello");
  const tool = { tool: "search", message: "timed out" };
  const failed = named(["tool_error", tool], ["tool_end", {}], ["completion", "Hi"], ["end", {}]);
  assert.equal((await read(failed)).content, "Hi");
  await assert.rejects(
    read(named(["tool_end", {}], ["data", { token: "Hi" }])),
    /ended before the answer did/,
  );
  await assert.rejects(read(named(["title", "A greeting"])), /unknown shape \(event: title\)/);
  for (const [said, message] of [
    [{ status_code: 500, message: "Internal" }, "Internal"],
    ["Out of memory", "Out of memory"],
  ])
    await assert.rejects(read(named(["data", "Hel"], ["error", said])), {
      kind: "server",
      message,
    });
});

test("items of a JSON array come when they are whole, and stay if the rest is cut", async () => {
  const item = (text, more = {}) => ({ candidates: [{ content: { parts: [{ text }] }, ...more }] });
  const items = [item("né "), item("[{,"), item("日本", { finishReason: "STOP" })];
  for (const [between, space] of [
    [",\n", 0],
    ["\n,\n", 2],
    [",\r\n", 0],
  ])
    for (const [open, close] of [
      ["[", "]"],
      ["[\n", "\n]\n"],
    ]) {
      const texts = items.map((one) => JSON.stringify(one, null, space));
      const bytes = bytesOf(open + texts.join(between) + close);
      for (const type of ["application/json", ""]) {
        const got = await read(response(body(bytes, [1, 3, 7, 30, 60]), type));
        assert.deepEqual([got.content, got.reason], ["né [{,日本", "STOP"]);
      }
      let came = "";
      const cut = readAnswer(response(body(bytes.subarray(0, -20), []), "application/json"));
      await assert.rejects(
        async () => {
          for await (const { text } of cut) came += text;
        },
        { kind: "server" },
      );
      assert.equal(came, "né [{,");
    }
  const cut = response(body(bytesOf('[{"generated_text":"Hel"},\n'), []), "application/json");
  await assert.rejects(read(cut), { kind: "server" });
});

test("an HTML page is no answer, unless it is asked for", async () => {
  const page = response("<!doctype html><p>Sign in", "text/html; charset=utf-8");
  await assert.rejects(read(page), { kind: "server", message: /HTML page, not an answer/ });
});

test("JSON on many lines is parsed once for each text, and not at each line", async (t) => {
  const texts = Array.from({ length: 100 }, (_, n) => `word ${n} [{"\\`);
  const last = { finishReason: "STOP" };
  const whole = texts.map((text, n) => ({
    candidates: [{ content: { parts: [{ text }] }, ...(n === texts.length - 1 && last) }],
  }));
  const bytes = bytesOf(JSON.stringify(whole, null, 2));
  const { parse } = JSON;
  t.after(() => (JSON.parse = parse));
  let parsed = 0;
  JSON.parse = (text, ...more) => {
    parsed += text.length;
    return parse(text, ...more);
  };
  const cuts = [...bytes.keys()].filter((at) => at && at % 50 === 0);
  const got = await read(response(body(bytes, cuts), "application/json"));
  assert.deepEqual([got.content, got.reason], [texts.join(""), "STOP"]);
  assert.ok(parsed <= 2 * bytes.length, `${parsed} characters of ${bytes.length}`);
});

test("a lost connection is an error of the network, after all that came, however slowly it is read", async () => {
  const letters = [..."abcdefghij"];
  const begun = eventsOf(letters.map((content) => chunk({ content })));
  for (const [part, type, expected] of [
    [begun, "text/event-stream", letters],
    ["dat", "", []], // too little to tell the form of the body
  ]) {
    const answer = readAnswer(response(losing(part), type));
    for (const letter of expected) {
      assert.equal((await answer.next()).value.text, letter);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await assert.rejects(answer.next(), {
      name: "DetokError",
      kind: "network",
      isRetryable: true,
      cause: LOST,
      message: /^The connection was lost in the middle of the answer \(terminated\)/,
    });
  }
});

test("a signal ends reading with its reason and cancels the body, whatever the form of the body", async () => {
  for (const type of ["text/event-stream", "application/json", "text/plain", ""])
    for (const early of [false, true]) {
      const stopping = new AbortController();
      const silent = new OpenBody();
      const answer = readAnswer(response(silent, type), { signal: stopping.signal });
      if (early) stopping.abort();
      const rejected = assert.rejects(answer.next(), { name: "AbortError" });
      await new Promise(setImmediate);
      stopping.abort();
      await rejected;
      assert.ok(silent.cancelled);
    }
});

test("a signal ends reading before the response has come, and its body is not read then", async () => {
  const stopping = new AbortController();
  const silent = new OpenBody();
  let send;
  const late = new Promise((resolve) => void (send = resolve));
  const answer = readAnswer(late, { signal: stopping.signal });
  const rejected = assert.rejects(answer.next(), { name: "AbortError" });
  stopping.abort();
  await rejected;
  send(response(silent));
  await new Promise(setImmediate);
  assert.ok(silent.cancelled);
});

test("a signal ends reading while Python starts, in whichever microtask it aborts", async (t) => {
  standIn(t, () => ({ boot: () => new Promise(() => {}) }));
  const microtasks = (count) => async () => {
    for (let n = 0; n < count; n++) await null;
  };
  const waits = Array.from({ length: 15 }, (_, n) => microtasks(n));
  waits.push(() => new Promise((resolve) => setTimeout(resolve, 20)));
  for (const type of ["text/event-stream", "application/json", "text/plain", ""])
    for (const [n, wait] of waits.entries()) {
      const stopping = new AbortController();
      const source = new OpenBody(chunk({ content: "a" }));
      const options = { signal: stopping.signal, stop: ["x"] };
      const answer = readAnswer(response(source, type), options);
      const rejected = assert.rejects(answer.next(), { name: "AbortError" });
      await wait();
      stopping.abort();
      await rejected;
      await until(() => source.cancelled, `${type}, wait ${n}`);
    }
});

test("a signal cancels the body of a server that is faster than the loop", async () => {
  for (const after of [1, 3])
    for (const leaves of [false, true]) {
      const stopping = new AbortController();
      let cancelled = false;
      const endless = new ReadableStream({
        pull: (controller) => controller.enqueue(bytesOf(eventsOf([chunk({ content: "a" })]))),
        cancel: () => void (cancelled = true),
      });
      const answer = readAnswer(response(endless), { signal: stopping.signal });
      for (let n = 0; n < after; n++) await answer.next();
      await new Promise(setImmediate);
      stopping.abort();
      if (leaves) await answer.return(undefined);
      else await assert.rejects(answer.next(), { name: "AbortError" });
      await until(() => cancelled, `after ${after} deltas`);
    }
});

test("a caller's own mistake is no lost connection, and closes the body", async (t) => {
  standIn(t, () => ({}));
  const read = response("data: {}\n\n");
  read.body?.getReader();
  await assert.rejects(readAnswer(read).next(), { name: "TypeError", message: /someone else/ });
  const silent = new OpenBody();
  const options = { stop: ["x"], promptIds: ["a"] };
  await assert.rejects(readAnswer(response(silent), options).next(), { name: "TypeError" });
  assert.ok(silent.cancelled);
});

/**
 * A Python that returns content as it is, is ready after some milliseconds, and ends at `stop`.
 * @param {import("node:test").TestContext} t
 */
function decoding(t, { stop = "", after = 0 } = {}) {
  const state = ["begun", false, "", null, "", "content"];
  const step = (symbol) => {
    if (symbol === null) return [[], "end", null];
    return symbol === stop ? [[], "stop", null] : [[["content", symbol]], null, state];
  };
  standIn(t, () => ({
    boot: () => new Promise((resolve) => setTimeout(resolve, after, {})),
    ask: (name, told, json, held, symbols) =>
      name === "begin_steps" ? [state] : JSON.parse(symbols).map(step),
  }));
}

test("what the engine separated comes between the texts that Python or the graphemes still hold", async (t) => {
  decoding(t);
  const lines = [
    chunk({ content: "Hello!" }),
    chunk({ reasoning_content: "hm" }),
    chunk({ content: "World" }),
  ];
  const call = chunk({ tool_calls: [{ index: 0, function: { name: "look", arguments: "{}" } }] });
  for (const options of [{ stop: "STOP" }, { granularity: "grapheme" }])
    for (const last of [[], [call]]) {
      const answer = sent(...lines, ...last, chunk({}, "stop"));
      const deltas = await listOf(readAnswer(answer, options));
      const said = deltas.map(({ text, name = "" }) => name + text).join("");
      assert.equal(said, last.length ? "Hello!hmWorldlook{}" : "Hello!hmWorld");
    }
});

test("an answer that a stop string has ended is whole, if the connection breaks behind it", async (t) => {
  decoding(t, { stop: "S", after: 50 });
  const lost = losing(...["a", "S"].map((content) => eventsOf([chunk({ content })])));
  const deltas = await listOf(readAnswer(response(lost), { stop: "S" }));
  assert.equal(deltas.map(({ text }) => text).join(""), "a");
});
