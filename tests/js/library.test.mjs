/**
 * The parts of the client library that need no browser: messages, batches, graphemes, and an import
 * that does nothing.
 */

import assert from "node:assert/strict";
import { test } from "node:test";

import { DetokTransport } from "../../web/src/ai-sdk.js";
import { unpack } from "../../web/src/boot-micropython.js";
import { connect } from "../../web/src/connect.js";
import { graphemes, shaper } from "../../web/src/graphemes.js";
import { answerCalls, makeCalls, postNote } from "../../web/src/messages.js";
import { EngineSocket, packBatch } from "../../web/src/socket.js";
import { find, State, StepTable } from "../../web/src/step-table.js";
import { AnswerStore } from "../../web/src/store.js";
import { standIn } from "./stand-in.mjs";
import { listOf, until } from "./streams.mjs";

/** Both ends of a wire, with these methods at the far one. */
function wired(context, methods, onNote) {
  const { port1, port2 } = new MessageChannel();
  context.after(() => port1.close());
  answerCalls(port2, methods);
  return { calls: makeCalls(port1, onNote), near: port1, far: port2 };
}

test("importing the library's modules for pages elsewhere does nothing, and a stream says what it needs", async () => {
  const before = Object.keys(globalThis).length;
  const library = await import("../../web/src/index.js");
  assert.equal(Object.keys(globalThis).length, before);
  // Bytes alone need no worker.
  const text = new Blob(["né"]).stream().pipeThrough(new library.DetokStream());
  assert.equal((await listOf(text)).join(""), "né");
  await assert.rejects(library.createDecoder({ stop: ["x"] }), {
    message: /No worker can start here/,
  });
  await assert.rejects(library.warmUp(), { name: "DetokError" });
  const { reason, error } = await library.connect("ws://127.0.0.1:1/stream", { prompt: "" })
    .finished;
  assert.equal(reason, "error");
  assert.match(error.message, /No worker can start here/);
});

test("a page that may not start a worker is told so, and may try again", async (t) => {
  const library = await import("../../web/src/index.js");
  globalThis.Worker = class {
    constructor() {
      throw new DOMException("no workers here", "SecurityError");
    }
  };
  t.after(() => delete globalThis.Worker);
  const message = "No worker can start here: no workers here";
  for (let n = 0; n < 2; n++)
    await assert.rejects(library.warmUp(), { name: "DetokError", kind: "policy", message });
  const { reason, error } = await new library.DetokStream({ stop: ["x"] }).finished;
  assert.deepEqual([reason, error.message], ["error", message]);
});

test("frames that came while the vocabulary did go to Python first, and no time goes back", async (t) => {
  const { fetch } = globalThis;
  t.after(() => {
    globalThis.fetch = fetch;
    delete globalThis.WebSocket;
  });
  globalThis.WebSocket = class {};
  const times = [];
  const asked = [];
  const ask = (method, bytes) => {
    asked.push([method, bytes]);
    const begun = performance.now();
    while (performance.now() < begun + 2);
    const wanted = asked.length === 1 ? { fetch: { url: "ws://x/vocabulary" } } : {};
    return JSON.stringify({ events: [{ type: "text" }], ...wanted });
  };
  // The memory that Python reads has room for one thing.
  let memory = "";
  const fill = (bytes) => (memory = String(bytes.length));
  const socket = new EngineSocket(
    "ws://x",
    (...words) => ask(...words, memory),
    fill,
    ({ at }) => times.push(at),
  );
  t.after(() => socket.port.close());
  const given = new Promise((done) => {
    globalThis.fetch = async () => ({
      ok: true,
      arrayBuffer: async () => {
        socket.socket.onmessage({ data: "{}" });
        setTimeout(done, 0);
        return new ArrayBuffer(1000);
      },
    });
  });
  socket.connect();
  socket.socket.onmessage({ data: "{}" });
  await given;
  assert.deepEqual(
    asked.map(([method]) => method),
    ["receive", "receive", "vocabulary"],
  );
  assert.equal(asked[2][1], "1000");
  assert.deepEqual(
    times,
    times.toSorted((one, other) => one - other),
  );
});

/** A socket whose Python gives these outcomes by method. */
function socketOf(t, outcomes) {
  const sockets = [];
  globalThis.WebSocket = class {
    constructor() {
      sockets.push(this);
    }
    close(...given) {
      this.closed = given;
    }
  };
  t.after(() => delete globalThis.WebSocket);
  const ask = (method) => JSON.stringify({ events: [], ...outcomes[method] });
  const socket = new EngineSocket(
    "ws://x",
    ask,
    () => 0,
    () => {},
  );
  t.after(() => socket.port.close());
  socket.connect();
  return { socket, sockets };
}

test("the reason of a close fits in a close frame", (t) => {
  const close = [4400, `a ${"詐".repeat(60)}`];
  const { socket, sockets } = socketOf(t, { give_up: { events: [{ type: "failed" }], close } });
  socket.giveUp();
  const [code, reason] = sockets[0].closed;
  assert.equal(code, 4400);
  assert.match(reason, /^a \?/);
  assert.ok(new TextEncoder().encode(reason).length <= 123); // RFC 6455, 5.5
});

test("no timer of a socket is left when its answer is over", (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  const outcomes = { lost: { retry: 1 }, give_up: { events: [{ type: "failed" }] } };
  const { socket, sockets } = socketOf(t, outcomes);
  sockets[0].onopen(); // a timer watches for silence
  sockets[0].onclose({ code: 1006, reason: "" }); // another waits for the next try
  assert.equal(timers(), before + 1);
  socket.giveUp();
  assert.equal(timers(), before);
});

test("replies find their calls in any order", async (t) => {
  let letGo;
  const { calls } = wired(t, {
    slow: () => new Promise((resolve) => (letGo = () => resolve("slow"))),
    quick: (a, b) => a + b,
  });
  const slow = calls.call("slow");
  assert.equal(await calls.call("quick", 1, 2), 3);
  letGo();
  assert.equal(await slow, "slow");
});

test("an error crosses with its name, message and code", async (t) => {
  const { calls } = wired(t, {
    fail() {
      throw Object.assign(new RangeError("too far"), { code: 4409 });
    },
    failOddly() {
      throw "a string";
    },
  });
  await assert.rejects(calls.call("fail"), { name: "RangeError", message: "too far", code: 4409 });
  await assert.rejects(calls.call("failOddly"), { name: "Error", message: "a string" });
  await assert.rejects(calls.call("toString"), {
    name: "TypeError",
    message: /no method toString/,
  });
});

test("what cannot cross rejects its own call and no other", async (t) => {
  const { calls } = wired(t, { echo: (value) => value });
  await assert.rejects(
    calls.call("echo", () => {}),
    { name: "DataCloneError" },
  );
  assert.equal(await calls.call("echo", "é"), "é");
});

test("when the other side has gone, all that waits and all that comes rejects with the reason", async (t) => {
  const { calls } = wired(t, { never: () => new Promise(() => {}) });
  const waiting = [calls.call("never"), calls.call("never")];
  calls.end(new Error("gone"));
  calls.end(new Error("gone again"));
  for (const one of [...waiting, calls.call("never")])
    await assert.rejects(one, { message: "gone" });
});

test("notes need no reply, and messages of others are none of ours", async (t) => {
  const notes = [];
  const { calls, near, far } = wired(t, { echo: (value) => value }, (name, value) =>
    notes.push([name, value]),
  );
  postNote(far, "progress", { loaded: 1 });
  for (const other of [null, 7, "text", {}, { reply: 99 }, { call: 1 }]) {
    far.postMessage(other);
    near.postMessage(other);
  }
  assert.equal(await calls.call("echo", 1), 1);
  assert.deepEqual(notes, [["progress", { loaded: 1 }]]);
});

test("steps are asked for ahead once from each state that a text can be in next", async () => {
  const state = (json, passing = null) => [json, false, "", passing, "", "content"];
  const begun = state("begun", ["<&", "", null]);
  const [tag, sign] = [state("tag"), state("sign")];
  const steps = {
    start: [
      [[], null, tag],
      [[], "end", null],
    ], // by "<" and by the end
    begun: [
      [[], null, tag],
      [[], null, sign],
      [[], "end", null],
    ],
    tag: [[[["content", "<"]], "end", null]],
    sign: [[[["content", "&"]], "end", null]],
  };
  const asked = [];
  class Told extends StepTable {
    async ask(name, told, json) {
      if (name === "begin_steps") return [state("start", ["<", " ", begun])];
      asked.push(json);
      return steps[json];
    }
  }
  await new Told({}, "").begun;
  await new Promise(setImmediate);
  assert.deepEqual(asked, ["start", "begun", "tag", "sign"]);
});

test("a token behind half a character, or in another channel, is not the content that it is elsewhere", () => {
  const kept = [];
  const table = { vocabulary: {}, options: {}, textsOf: () => kept, token: () => "a", keep() {} };
  const state = (channel) => new State(["", true, "", ["", "", null], "", channel], table);
  const content = state("content");
  assert.equal(find(content, 0), "a");
  assert.deepEqual(kept, ["a"]);
  assert.deepEqual(find(content.holding("e4"), 0).deltas, [["content", "\ufffda"]]);
  assert.deepEqual(find(state("reasoning"), 0).deltas, [["reasoning", "a"]]);
});

test("a batch holds text and binary frames, each with its length", () => {
  const batch = packBatch(["é", new Uint8Array([1, 2, 3]).buffer, "", new ArrayBuffer(300)]);
  assert.deepEqual([...batch.slice(0, 7)], [0, 2, 0, 0, 0, 0xc3, 0xa9]);
  assert.deepEqual([...batch.slice(7, 15)], [1, 3, 0, 0, 0, 1, 2, 3]);
  assert.deepEqual([...batch.slice(15, 25)], [0, 0, 0, 0, 0, 1, 0x2c, 1, 0, 0]);
  assert.equal(batch.length, 25 + 300);
  assert.equal(packBatch([]).length, 0);
});

test("a bundle is taken apart into its files", () => {
  const head = new TextEncoder().encode('[["a.py",3],["b/é.py",0],["c.py",2]]\n');
  const files = [];
  unpack(new Uint8Array([...head, 1, 2, 3, 10, 10]), (name, bytes) =>
    files.push([name, [...bytes]]),
  );
  assert.deepEqual(files, [
    ["a.py", [1, 2, 3]],
    ["b/é.py", []],
    ["c.py", [10, 10]],
  ]);
});

test("graphemes are the same however the text was cut", () => {
  const text = "e\u0301👩‍🚀🇩🇪🇫🇷\r\n한각नि\u200d";
  const whole = [...new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text)].map(
    ({ segment }) => segment,
  );
  for (let size = 1; size <= 5; size++) {
    const points = [...text];
    const stage = graphemes();
    const shown = [];
    for (let at = 0; at < points.length; at += size)
      shown.push(stage.feed(points.slice(at, at + size).join("")));
    shown.push(stage.flush());
    assert.equal(shown.join(""), text);
    let at = 0;
    const ends = new Set([0, ...whole.map((one) => (at += one.length))]);
    let length = 0;
    for (const part of shown)
      assert.ok(
        ends.has((length += part.length)),
        `${JSON.stringify(part)} at size ${size} ends inside a grapheme`,
      );
    assert.equal(stage.flush(), "");
    assert.equal(stage.feed(""), "");
  }
});

test("deltas of whole graphemes keep their channels, and nothing is left in the end", () => {
  const shape = shaper("grapheme");
  assert.deepEqual(shape([["content", "e"]], false), []);
  assert.deepEqual(shape([["content", "\u0301x"]], false), [
    { channel: "content", text: "e\u0301" },
  ]);
  assert.deepEqual(shape([["reasoning", "y"]], false), [{ channel: "content", text: "x" }]);
  assert.deepEqual(shape([], true), [{ channel: "reasoning", text: "y" }]);
  assert.deepEqual(
    shaper("character")(
      [
        ["content", "e"],
        ["content", ""],
      ],
      true,
    ),
    [{ channel: "content", text: "e" }],
  );
});

test("a whole JSON value ends its last grapheme", () => {
  const shape = shaper("grapheme");
  shape([["content", '{"a":']], false);
  assert.deepEqual(shape([["content", "1}", { complete: true }]], false), [
    { channel: "content", text: ":1}", complete: true },
  ]);
});

/** A bridge whose every answer is these events. Returns a list that takes what it is asked. */
function answering(t, ...events) {
  const asked = [];
  standIn(t, (port) => ({
    prepare() {},
    tell() {},
    release() {},
    connect(stream, url, request) {
      asked.push(JSON.parse(request));
      postNote(port, "batch", { stream, at: Date.now(), events });
    },
  }));
  return asked;
}
const said = (...deltas) => ({ type: "text", deltas, count: 1, position: 1 });
const finished = (reason) => ({ type: "finished", reason, deltas: [] });

test("a delta that completes the value still says so when it is joined to one before", async (t) => {
  const value = [said(["content", '{"a":']), said(["content", "1}", { complete: true }])];
  answering(t, ...value, said(["content", "\n"]), finished("eos"));
  const answer = connect("ws://127.0.0.1:1/stream", { prompt: "x", format: "json" });
  await answer.finished;
  assert.deepEqual(await listOf(answer), [
    { channel: "content", text: '{"a":1}', complete: true },
    { channel: "content", text: "\n" },
  ]);
});

const HI = { role: "user", parts: [{ type: "text", text: "hi" }] };

/** What the AI SDK gets when it sends these turns. @param {any[]} messages */
async function sendTurns(messages) {
  const storage = { getItem: () => null, setItem() {}, removeItem() {} };
  const transport = new DetokTransport("ws://127.0.0.1:1/stream", { storage });
  return listOf(await transport.sendMessages({ chatId: "c", messages }));
}

test("the AI SDK learns that a limit has cut a call, and asks for no tool", async (t) => {
  const call = { call: 0, name: "look" };
  answering(
    t,
    said(["tool_call", "", call]),
    said(["tool_call", '{"x":', { call: 0 }]),
    finished("length"),
  );
  assert.equal((await sendTurns([HI])).at(-1).finishReason, "length");
});

test("the AI SDK sends every turn with its calls and results", async (t) => {
  const asked = answering(t, finished("eos"));
  const call = { toolName: "look", toolCallId: "1", input: { at: 1 }, output: ["é"] };
  const parts = [
    { type: "reasoning", text: "hm" },
    { type: "text", text: "One moment." },
    { type: "dynamic-tool", state: "output-available", ...call },
  ];
  await sendTurns([HI, { role: "assistant", parts }]);
  const made = { name: "look", arguments: '{"at":1}' };
  assert.deepEqual(asked[0].messages, [
    { role: "user", content: "hi" },
    {
      role: "assistant",
      content: "One moment.",
      tool_calls: [{ id: "1", type: "function", function: made }],
    },
    { role: "tool", content: '["é"]', tool_call_id: "1" },
  ]);
});

test("a store that stops before its answer has come ends it when it comes", async () => {
  let left = false;
  const late = {
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise(() => {}),
      return: async () => void (left = true),
    }),
  };
  let come;
  const store = new AnswerStore(() => new Promise((resolve) => (come = () => resolve(late))));
  const sent = store.send("x");
  store.stop();
  assert.equal((await sent).reason, "cancelled");
  come();
  await new Promise(setImmediate);
  assert.ok(left);
});

test("a store of any answer says how it ended, without frames and whatever its source does", async () => {
  const never = new Promise(() => {});
  const none = () => {
    throw new Error("no engine");
  };
  async function* whole() {
    yield* ["a", "b"];
  }
  async function* stopped(store) {
    yield "a";
    store.stop();
    await never;
  }
  const early = (answer) => (store) => {
    store.stop();
    return answer();
  };
  for (const [source, reason, text, message] of [
    [whole, "end", "ab"],
    [() => {}, "error", "", /returned undefined, and must return an answer/],
    [none, "error", "", /no engine/],
    [stopped, "cancelled", "a"],
    [early(() => never), "cancelled", ""],
    [early(() => Promise.reject(new Error("late"))), "cancelled", ""],
  ]) {
    const store = new AnswerStore(() => source(store));
    const end = await store.send("x");
    assert.deepEqual([end.reason, store.read().text], [reason, text]);
    if (message) assert.match(end.error.message, message);
  }
});

test("a stop and the next question end an answer, and its function is told by its signal", async () => {
  const aborted = [];
  const store = new AnswerStore(async function* (name, { signal }) {
    const stopped = new Promise((resolve) => signal.addEventListener("abort", resolve));
    yield name;
    aborted.push((await stopped) && name);
    yield "too late";
  });
  const first = store.send("one");
  await until(() => store.read().text === "one");
  const second = store.send("two");
  await until(() => store.read().text === "two");
  store.stop();
  const ends = [await first, await second].map(({ reason }) => reason);
  assert.deepEqual(ends, ["cancelled", "cancelled"]);
  await until(() => aborted.length === 2);
  await new Promise(setImmediate);
  const { text, status } = store.read();
  assert.deepEqual([aborted, text, status], [["one", "two"], "two", "ready"]);
});

test("a store keeps no delta that it has read", async () => {
  const { race } = Promise;
  let races = 0;
  Promise.race = (...given) => {
    races++;
    return race.apply(Promise, given);
  };
  const store = new AnswerStore(async function* () {
    for (let n = 0; n < 10; n++) yield "a";
  });
  await store.send("x").finally(() => (Promise.race = race));
  assert.equal(races, 0); // each race would add to what its longest promise holds
});

test("a listener that fails leaves the answer and the other listeners alone", async (t) => {
  const { error } = console;
  const reported = [];
  console.error = (given) => reported.push(given.message);
  t.after(() => (console.error = error));
  const store = new AnswerStore(async function* () {
    yield "a";
  });
  let told = 0;
  store.subscribe(() => {
    throw new Error("mine");
  });
  store.subscribe(() => told++);
  assert.equal((await store.send("x")).reason, "end");
  assert.ok(told);
  assert.deepEqual([...new Set(reported)], ["mine"]);
});

test("a chat whose answer another connection has taken up can still be resumed", async (t) => {
  answering(t, { type: "failed", code: 4499, message: "taken", kind: "server", deltas: [] });
  const kept = new Map();
  const storage = {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, value),
    removeItem: (key) => kept.delete(key),
  };
  kept.set("detok.run.c", "run");
  const transport = new DetokTransport("ws://127.0.0.1:1/stream", { storage });
  const stream = await transport.reconnectToStream({ chatId: "c" });
  await stream.cancel();
  assert.deepEqual([...kept], [["detok.run.c", "run"]]);
});

test("a storage that is full does not stop a chat", async (t) => {
  const full = () => {
    throw new DOMException("The quota has been exceeded.", "QuotaExceededError");
  };
  const storage = { getItem: () => null, setItem: full, removeItem() {} };
  const transport = new DetokTransport("ws://127.0.0.1:1/stream", { storage });
  const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: "hi" }] }];
  const chunks = await transport.sendMessages({ chatId: "1", messages });
  assert.equal((await chunks.getReader().read()).value.type, "start");
});

test("an element asks once, until its prompt has another value or it is put back", async (t) => {
  globalThis.HTMLElement = class extends EventTarget {
    dataset = {};
    style = {};
    attributes = {};
    isConnected = false;
    hasAttribute = (name) => name in this.attributes;
    getAttribute = (name) => this.attributes[name] ?? null;
    replaceChildren() {}
    setAttribute(name, value) {
      const before = this.getAttribute(name);
      this.attributes[name] = value;
      if (["src", "prompt"].includes(name)) this.attributeChangedCallback(name, before, value);
    }
  };
  globalThis.document = { createTextNode: (data) => ({ data }), addEventListener() {} };
  t.after(() => ["HTMLElement", "document"].forEach((name) => delete globalThis[name]));
  const { DetokText } = await import("../../web/src/element.js");
  const element = new DetokText();
  let asked = 0;
  element.start = () => {
    asked++;
    element.stream = new Blob([]).stream();
  };
  const later = () => new Promise((resolve) => setTimeout(resolve));
  const put = (isConnected) => {
    element.isConnected = isConnected;
    element[isConnected ? "connectedCallback" : "disconnectedCallback"]();
  };
  element.setAttribute("prompt", "p");
  for (const [change, count] of [
    [() => put(true), 1],
    [() => (put(false), put(true)), 1], // moved
    [() => element.setAttribute("prompt", "p"), 1],
    [() => element.setAttribute("prompt", "q"), 2],
    [() => put(false), 2],
    [() => put(true), 3],
  ]) {
    change();
    await later();
    assert.deepEqual([asked, element.dataset.state], [count, "finished"]);
  }
  // A source that cannot be left is let go of all the same.
  const left = async () => {
    throw new Error("it is closed already");
  };
  element.stream = {
    [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}), return: left }),
  };
  assert.equal(element.dataset.state, "streaming");
  element.stop();
  await later(); // an unhandled rejection fails this test
  assert.equal(element.dataset.state, "finished");
});
