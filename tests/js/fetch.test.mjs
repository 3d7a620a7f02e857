// The body of a fetch as deltas: every cut of an event stream gives the same text. Without Python,
// in Node.

import assert from "node:assert/strict";
import { test } from "node:test";
import { shutDown } from "../../web/src/decoder.js";
import { readAnswer, ServerSentEvents } from "../../web/src/fetch.js";
import { answerCalls } from "../../web/src/messages.js";
import { readToolCalls } from "../../web/src/tool-calls.js";

const TEXT = "naïve 你好 👩‍🚀 \u{1f1e9}\u{1f1ea} \ufeff";

/** @param {Uint8Array} bytes @param {number[]} cuts */
function body(bytes, cuts) {
  const ends = [...cuts, bytes.length];
  return new ReadableStream({
    start(controller) {
      let from = 0;
      for (const end of ends) {
        controller.enqueue(bytes.subarray(from, end));
        from = end;
      }
      controller.close();
    },
  });
}

const bytesOf = (/** @type {string} */ text) => new TextEncoder().encode(text);
const chunk = (/** @type {object} */ delta, finish = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}`;
const response = (/** @type {BodyInit} */ given, type = "text/event-stream; charset=utf-8") =>
  new Response(given, { headers: { "content-type": type } });

/** Read to the end: the text of each channel, and the reason. @param {Response} answer */
async function read(answer) {
  const got = {
    content: "",
    reasoning: "",
    tool_call: "",
    parts: 0,
    reason: /** @type {string | undefined} */ (undefined),
  };
  const from = readAnswer(answer);
  for (;;) {
    const { done, value } = await from.next();
    if (done) return { ...got, reason: value ?? undefined };
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
    const events = [];
    const reader = body(bytes, at).pipeThrough(new ServerSentEvents()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read())
      events.push(part.value);
    assert.deepEqual(events, expected, `cut at ${at}`);
  }
});

test("an answer of an engine is the same text at every cut and with every line end", async () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const lines = [...TEXT].map((letter) => chunk({ content: letter }));
    const bytes = bytesOf(
      [
        ": ping",
        "",
        chunk({ role: "assistant", content: null }),
        "",
        ...lines.flatMap((line) => [line, ""]),
        chunk({}, "stop"),
        "",
        "data: [DONE]",
        "",
        "",
      ].join(end),
    );
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
    response(
      `data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\ndata: {"choices":[{"delta":{"content":"\\ude00b"},"finish_reason":"stop"}]}\n\n`,
    ),
  );
  assert.equal(got.content, "a😀b");
});

test("a half that stays alone is one replacement character, at once or at the end", async () => {
  const got = await read(
    response(`data: {"choices":[{"delta":{"content":"\\udc00a\\ud83d"}}]}\n\ndata: [DONE]\n\n`),
  );
  assert.equal(got.content, "\ufffda\ufffd");
});

test("reasoning, the older completions and llama-server's own events are read too", async () => {
  assert.equal(
    (
      await read(
        response(
          `${chunk({ reasoning_content: "hm" })}\n\n${chunk({ content: "5" }, "length")}\n\n`,
        ),
      )
    ).reasoning,
    "hm",
  );
  assert.equal(
    (await read(response(`data: {"choices":[{"text":"é"}]}\n\ndata: [DONE]\n\n`))).content,
    "é",
  );
  assert.equal(
    (
      await read(
        response(`data: {"content":"é","stop":false}\n\ndata: {"content":"","stop":true}\n\n`),
      )
    ).content,
    "é",
  );
});

test("a tool call comes with its number and name, and its arguments as they grow", async () => {
  const call = (/** @type {number} */ index, /** @type {object} */ its, id = undefined) =>
    chunk({ tool_calls: [{ index, id, function: its }] });
  const lines = [
    call(0, { name: "look", arguments: "" }),
    call(0, { arguments: '{"where": "\ud83d' }),
    call(0, { arguments: '\udc4b京"}' }),
    call(1, { name: "go" }),
    chunk({}, "tool_calls"),
    "",
  ];
  const deltas = [];
  for await (const delta of readAnswer(response(lines.join("\n\n")))) deltas.push(delta);
  const channel = "tool_call";
  assert.deepEqual(deltas, [
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
    const ended = [];
    const body = `${first}\n\n${chunk({}, String(reason))}\n\n`;
    for await (const delta of readAnswer(response(body))) ended.push(delta);
    assert.equal(
      ended.some(({ complete }) => complete),
      whole,
      body,
    );
    assert.equal(ended.length, whole ? 2 : 1);
  }
  const cut = readAnswer(response(`${lines.slice(0, 2).join("\n\n")}\n\n`));
  await assert.rejects(async () => {
    for await (const delta of cut) assert.ok(!delta.complete);
  }, /ended before the answer did/);
});

test("pieces of two calls that alternate go to the calls of their numbers", async () => {
  const call = (/** @type {number} */ index, /** @type {object} */ its) => ({
    index,
    function: its,
  });
  const both = (/** @type {object} */ one, /** @type {object} */ two) =>
    chunk({ tool_calls: [call(0, one), call(1, two)] });
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
    /** @type {{name: string, text: string, complete: boolean}[]} */
    const calls = [];
    const body = [...lines, chunk({}, /** @type {any} */ ("tool_calls")), ""].join("\n\n");
    for await (const { call, name = "", text, complete = false } of readAnswer(response(body))) {
      const so_far = calls[Number(call)] ?? { name: "", text: "" };
      calls[Number(call)] = { name: so_far.name + name, text: so_far.text + text, complete };
    }
    assert.deepEqual(calls, [
      { name: "look", text: '{"at": "👋"}', complete: true },
      { name: "go", text: '{"to": "😀"}', complete: true },
    ]);
  }
});

test("events that keep a connection open, or follow the end, are no text and no error", async () => {
  for (const idle of [
    "event: ping\ndata:",
    "data: [HEARTBEAT]",
    "event: ping\ndata: now",
    "data: ",
  ])
    assert.deepEqual(
      await read(
        response(`${idle}\n\n${chunk({ content: "é" }, /** @type {any} */ ("stop"))}\n\n`),
      ),
      { content: "é", reasoning: "", tool_call: "", parts: 1, reason: "stop" },
    );
  for (const end of ["data: [DONE] \n\n", "data: [DO", "event: end\ndata: bye\n\n"]) {
    const whole = `${chunk({ content: "é" }, /** @type {any} */ ("stop"))}\n\n${end}`;
    assert.equal((await read(response(whole))).content, "é");
  }
  const langChain = `data: ${JSON.stringify({ type: "AIMessageChunk", content: "é" })}`;
  for (const first of [chunk({ content: "é" }), langChain]) {
    const failed = `${first}\n\nevent: error\ndata: out of memory\n\n`;
    await assert.rejects(read(response(failed)), { kind: "server", message: "out of memory" });
    await assert.rejects(read(response(`${first}\n\ndata: {"ty`)), { message: /not JSON/ });
  }
});

test("what came before a connection was lost is read, however slowly", async () => {
  const lines = [..."abcdefghij"].map((content) => `${chunk({ content })}\n\n`).join("");
  let pulls = 0;
  const lost = new ReadableStream({
    pull(controller) {
      if (pulls++) controller.error(new TypeError("terminated"));
      else controller.enqueue(bytesOf(lines));
    },
  });
  let text = "";
  await assert.rejects(
    async () => {
      for await (const delta of readAnswer(response(lost))) {
        text += delta.text;
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    },
    { kind: "network" },
  );
  assert.equal(text, "abcdefghij");
});

test("an error that the server has named stays the reason if the connection breaks then", async () => {
  const named = 'data: {"error":{"message":"out of memory","code":400}}';
  let pulls = 0;
  const lost = new ReadableStream({
    pull(controller) {
      if (pulls++) controller.error(new TypeError("terminated"));
      else controller.enqueue(bytesOf(`${chunk({ content: "a" })}\n\n${named}\n\n`));
    },
  });
  await assert.rejects(read(response(lost)), { message: "out of memory", code: 400 });
});

test("a limit that cuts the last call leaves the one before it whole", async () => {
  const calls = (/** @type {number} */ index, /** @type {object} */ its) =>
    chunk({ tool_calls: [{ index, function: its }] });
  const lines = [calls(0, { name: "look" }), calls(1, { name: "go", arguments: '{"x":' })];
  const body = [...lines, chunk({}, /** @type {any} */ ("length")), ""].join("\n\n");
  const whole = [];
  for await (const { call, complete } of readAnswer(response(body))) if (complete) whole.push(call);
  assert.deepEqual(whole, [0]);
});

test("a reader that leaves cancels the body, even if it has not begun or nothing comes", async () => {
  await readAnswer(Promise.reject(new TypeError("failed"))).return(undefined);
  for (const [begins, waits, type] of /** @type {const} */ ([
    [false, true, undefined],
    [true, true, undefined],
    [true, false, undefined],
    [true, true, ""],
  ])) {
    let cancelled = false;
    const silent = new ReadableStream({ cancel: () => void (cancelled = true) });
    const answer = readAnswer(Promise.resolve(response(silent, type)));
    const next = begins ? answer.next() : undefined;
    if (waits) await new Promise(setImmediate);
    await answer.return(undefined);
    assert.deepEqual(await next, begins ? { done: true, value: undefined } : undefined);
    await new Promise(setImmediate);
    assert.ok(cancelled);
  }
});

test("a stream that breaks off says so, after all that had come", async () => {
  for (const [stream, words] of /** @type {const} */ ([
    [`${chunk({ content: "half" })}\n\n`, /ended before/],
    [`${chunk({ content: "half" })}\n\ndata: {"choi`, /not JSON/],
    [
      `${chunk({ content: "half" })}\n\ndata: {"error":{"message":"out of memory","code":500}}\n\n`,
      /out of memory/,
    ],
  ])) {
    let text = "";
    await assert.rejects(
      async () => {
        for await (const delta of readAnswer(response(stream))) text += delta.text;
      },
      { name: "DetokError", message: words },
    );
    assert.equal(text, "half");
  }
});

test("an answer of an unknown shape is named by the type or the keys of its first object", async () => {
  for (const [events, named] of /** @type {const} */ ([
    [[7, { type: "pulse", n: 1 }, { type: "beat" }], "pulse"],
    [[{ beat: 1, n: 2 }], "beat, n"],
  ])) {
    const stream = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
    const message = new RegExp(`has an unknown shape \\(${named}\\)`);
    await assert.rejects(read(response(stream)), { kind: "server", message });
  }
});

test("a refusal is the server's own sentence", async () => {
  const refusal = new Response('{"error":{"message":"no such model"}}', { status: 404 });
  await assert.rejects(readAnswer(refusal).next(), {
    name: "DetokError",
    code: 404,
    message: "The server answered HTTP 404: no such model",
  });
});

test("asking again may help a busy or broken server, and no other", async () => {
  for (const [status, isRetryable] of [
    [400, false],
    [404, false],
    [429, true],
    [500, true],
    [503, true],
  ])
    await assert.rejects(readAnswer(new Response("no", { status })).next(), {
      code: status,
      isRetryable,
    });
});

test("an error in the stream has the server's code, and says whether asking again may help", async () => {
  for (const [error, code, isRetryable] of [
    [{ message: "too long", code: 400 }, 400, false],
    [{ message: "busy", code: 429 }, 429, true],
    [{ message: "broken", code: 500 }, 500, true],
    [{ message: "lost" }, undefined, true],
  ])
    await assert.rejects(read(response(`data: ${JSON.stringify({ error })}\n\n`)), {
      message: error.message,
      code,
      isRetryable,
    });
});

test("the name of an event tells an error, an end and other things from text", async () => {
  const named = (/** @type {[string, unknown][]} */ ...events) =>
    response(
      events.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join(""),
    );
  const told = /** @type {[string, unknown][]} */ ([
    ["connected", "ok"],
    ["data", "Hel"],
    ["title", "A greeting"],
    ["data", "lo"],
    ["replace_response", { text: "Sorry" }],
  ]);
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
  const item = (/** @type {string} */ text, more = {}) => ({
    candidates: [{ content: { parts: [{ text }] }, ...more }],
  });
  const items = [item("né "), item("[{,"), item("日本", { finishReason: "STOP" })];
  for (const [between, space] of /** @type {const} */ ([
    [",\n", 0],
    ["\n,\n", 2],
    [",\r\n", 0],
  ]))
    for (const [open, close] of /** @type {const} */ ([
      ["[", "]"],
      ["[\n", "\n]\n"],
    ])) {
      const texts = items.map((one) => JSON.stringify(one, null, space));
      const bytes = bytesOf(open + texts.join(between) + close);
      for (const type of ["application/json", ""]) {
        const got = await read(response(body(bytes, [7, 30, 60]), type));
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

test("leaving the loop cancels the body, even while it says nothing", async () => {
  let cancelled = false;
  const endless = new ReadableStream({
    start: (controller) => controller.enqueue(bytesOf(`${chunk({ content: "a" })}\n\n`)),
    cancel: () => void (cancelled = true),
  });
  for await (const delta of readAnswer(response(endless))) {
    assert.equal(delta.text, "a");
    break;
  }
  assert.ok(cancelled);
});

test("calls beside each other, in an array, and what is no call", () => {
  const names = (/** @type {string} */ text) => readToolCalls(text).map(({ name }) => name);
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

test("an HTML page is no answer, unless it is asked for", async () => {
  const page = () => response("<!doctype html><p>Sign in", "text/html; charset=utf-8");
  await assert.rejects(read(page()), { kind: "server", message: /HTML page, not an answer/ });
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
  JSON.parse = (/** @type {string} */ text, ...more) => {
    parsed += text.length;
    return parse(text, ...more);
  };
  const cuts = [...bytes.keys()].filter((at) => at && at % 50 === 0);
  const got = await read(response(body(bytes, cuts), "application/json"));
  assert.deepEqual([got.content, got.reason], [texts.join(""), "STOP"]);
  assert.ok(parsed <= 2 * bytes.length, `${parsed} characters of ${bytes.length}`);
});

test("a lost connection is an error of the network, at any time", async () => {
  const begun = chunk({ content: "a" });
  for (const [sent, type] of [
    [`${begun}\n\n`, "text/event-stream"],
    ["dat", ""], // too little to tell the form of the body
  ]) {
    const lost = new TypeError("terminated");
    const source = new ReadableStream({
      start: (controller) => controller.enqueue(bytesOf(String(sent))),
      pull: (controller) => controller.error(lost),
    });
    await assert.rejects(
      read(new Response(source, { headers: type ? { "content-type": type } : {} })),
      {
        name: "DetokError",
        kind: "network",
        isRetryable: true,
        cause: lost,
        message: /^The connection was lost in the middle of the answer \(terminated\)/,
      },
    );
  }
});

test("a signal ends reading with its reason and cancels the body, whatever the form of the body", async () => {
  for (const type of ["text/event-stream", "application/json", "text/plain", ""])
    for (const early of [false, true]) {
      const stopping = new AbortController();
      let cancelled = false;
      const silent = new ReadableStream({ cancel: () => void (cancelled = true) });
      const headers = type ? { "content-type": type } : {};
      const answer = readAnswer(new Response(silent, { headers }), { signal: stopping.signal });
      if (early) stopping.abort();
      const rejected = assert.rejects(answer.next(), { name: "AbortError" });
      await new Promise(setImmediate);
      stopping.abort();
      await rejected;
      assert.ok(cancelled);
    }
});

test("a signal ends reading before the response has come, and its body is not read then", async () => {
  const stopping = new AbortController();
  let cancelled = false;
  const silent = new ReadableStream({ cancel: () => void (cancelled = true) });
  /** @type {(late: Response) => void} */
  let send = () => {};
  const late = new Promise((resolve) => void (send = resolve));
  const answer = readAnswer(late, { signal: stopping.signal });
  const rejected = assert.rejects(answer.next(), { name: "AbortError" });
  stopping.abort();
  await rejected;
  send(response(silent));
  await new Promise(setImmediate);
  assert.ok(cancelled);
});

/** A worker in whose place a test answers. @param {import("node:test").TestContext} t */
function standIn(t, methods) {
  globalThis.Worker = /** @type {any} */ (
    class {
      constructor() {
        const { port1, port2 } = new MessageChannel();
        answerCalls(port2, methods);
        return Object.assign(port1, { terminate: () => port2.close() });
      }
    }
  );
  t.after(() => {
    shutDown();
    Reflect.deleteProperty(globalThis, "Worker");
  });
}

test("a signal ends reading while Python starts, and the body is cancelled", async (t) => {
  standIn(t, { boot: () => new Promise(() => {}) });
  const stopping = new AbortController();
  let cancelled = false;
  const source = new ReadableStream({
    start: (controller) => controller.enqueue(bytesOf(`${chunk({ content: "a" })}\n\n`)),
    cancel: () => void (cancelled = true),
  });
  const answer = readAnswer(response(source), { signal: stopping.signal, stop: ["x"] });
  const rejected = assert.rejects(answer.next(), { name: "AbortError" });
  await new Promise((resolve) => setTimeout(resolve, 20));
  stopping.abort();
  await rejected;
  await new Promise(setImmediate);
  assert.ok(cancelled);
});

test("a signal ends reading in whichever microtask it aborts", async (t) => {
  standIn(t, { boot: () => new Promise(() => {}) });
  for (const type of ["text/event-stream", "application/json", "text/plain", ""])
    for (let turns = 0; turns < 15; turns++) {
      const stopping = new AbortController();
      let cancelled = false;
      const source = new ReadableStream({
        start: (controller) => controller.enqueue(bytesOf(`${chunk({ content: "a" })}\n\n`)),
        cancel: () => void (cancelled = true),
      });
      const headers = type ? { "content-type": type } : {};
      const options = { signal: stopping.signal, stop: ["x"] };
      const rejected = assert.rejects(
        readAnswer(new Response(source, { headers }), options).next(),
        { name: "AbortError" },
      );
      for (let turn = 0; turn < turns; turn++) await null;
      stopping.abort();
      await rejected;
      await new Promise((resolve) => setTimeout(resolve, 2));
      assert.ok(cancelled, `${type}, ${turns} turns`);
    }
});

test("a signal cancels the body of a server that is faster than the loop", async () => {
  for (const after of [1, 3])
    for (const leaves of [false, true]) {
      const stopping = new AbortController();
      let cancelled = false;
      const endless = new ReadableStream({
        pull: (controller) => controller.enqueue(bytesOf(`${chunk({ content: "a" })}\n\n`)),
        cancel: () => void (cancelled = true),
      });
      const answer = readAnswer(response(endless), { signal: stopping.signal });
      for (let n = 0; n < after; n++) await answer.next();
      await new Promise(setImmediate);
      stopping.abort();
      if (leaves) await answer.return(undefined);
      else await assert.rejects(answer.next(), { name: "AbortError" });
      await new Promise((resolve) => setTimeout(resolve, 2));
      assert.ok(cancelled, `after ${after} deltas`);
    }
});

test("a caller's own mistake is no lost connection, and closes the body", async (t) => {
  standIn(t, { boot: () => ({}) });
  const read = response("data: {}\n\n");
  read.body?.getReader();
  await assert.rejects(readAnswer(read).next(), { name: "TypeError", message: /someone else/ });
  let cancelled = false;
  const silent = new ReadableStream({ cancel: () => void (cancelled = true) });
  const options = { stop: ["x"], promptIds: /** @type {any} */ (["a"]) };
  await assert.rejects(readAnswer(response(silent), options).next(), { name: "TypeError" });
  assert.ok(cancelled);
});

/**
 * A Python that returns content as it is, is ready after some milliseconds, and ends at `stop`.
 * @param {import("node:test").TestContext} t
 */
function decoding(t, { stop = "", after = 0 } = {}) {
  const state = ["begun", false, "", null, "", "content"];
  const step = (/** @type {string | null} */ symbol) => {
    if (symbol === null) return [[], "end", null];
    return symbol === stop ? [[], "stop", null] : [[["content", symbol]], null, state];
  };
  standIn(t, {
    boot: () => new Promise((resolve) => setTimeout(resolve, after, {})),
    ask: (name, told, json, held, symbols) =>
      name === "begin_steps" ? [state] : JSON.parse(symbols).map(step),
  });
}

test("what the engine separated comes behind the text that Python still decodes", async (t) => {
  decoding(t);
  const lines = [
    chunk({ content: "one" }),
    chunk({ reasoning_content: "two" }),
    chunk({ content: "three" }),
    chunk({ tool_calls: [{ index: 0, function: { name: "four", arguments: "{}" } }] }),
    chunk({}, /** @type {any} */ ("stop")),
    "",
  ];
  const said = [];
  for await (const { text, name } of readAnswer(response(lines.join("\n\n")), { stop: "STOP" }))
    if (name || text) said.push(name ?? text);
  assert.deepEqual(said.slice(0, 4), ["one", "two", "three", "four"]);
});

test("whole graphemes of the text come before what the engine separated", async (t) => {
  decoding(t);
  const lines = [
    chunk({ content: "Hello!" }),
    chunk({ reasoning_content: "hm" }),
    chunk({ content: "World" }),
    chunk({ tool_calls: [{ index: 0, function: { name: "look", arguments: "{}" } }] }),
    chunk({}, /** @type {any} */ ("stop")),
    "",
  ];
  let said = "";
  const options = { granularity: /** @type {const} */ ("grapheme") };
  for await (const { text, name = "" } of readAnswer(response(lines.join("\n\n")), options))
    said += name + text;
  assert.equal(said, "Hello!hmWorldlook{}");
});

test("an answer that a stop string has ended is whole, if the connection breaks behind it", async (t) => {
  decoding(t, { stop: "S", after: 50 });
  let pulls = 0;
  const lost = new ReadableStream({
    pull(controller) {
      if (pulls++ > 1) controller.error(new TypeError("terminated"));
      else controller.enqueue(bytesOf(`${chunk({ content: pulls === 1 ? "a" : "S" })}\n\n`));
    },
  });
  let text = "";
  for await (const delta of readAnswer(response(lost), { stop: "S" })) text += delta.text;
  assert.equal(text, "a");
});
