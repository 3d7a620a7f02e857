// resumingFetch: an answer of llama-server goes on after a lost connection, at every byte.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readAnswer, resumingFetch } from "../../web/src/fetch.js";
import { cutting, keeping, serving } from "./kept-answers.mjs";
import { until } from "./streams.mjs";

const TEXT = "né👩‍🚀";
const bytesOf = (text) => new TextEncoder().encode(text);
const event = (delta, finish = null) =>
  bytesOf(`data: ${JSON.stringify({ choices: [{ delta, finish_reason: finish }] })}\n\n`);
const CHUNKS = [
  bytesOf(":\n\n"), // while a prompt is read
  event({ content: "né👩" }),
  event({ content: "\u200d🚀" }),
  event({}, "stop"),
  bytesOf("data: [DONE]\n\n"),
];
const POST = {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ messages: [{ role: "user", content: "hi" }], stream: true }),
};
const chat = ({ address }) => `${address}/v1/chat/completions`;

/** @param {Promise<Response>} response */
async function read(response) {
  const answer = readAnswer(response);
  let text = "";
  for (;;) {
    const { done, value } = await answer.next();
    if (done) return [text, value];
    text += value.text;
  }
}

/**
 * What is read when connections are cut.
 * @param {Awaited<ReturnType<typeof keeping>>} server
 * @param {Parameters<typeof cutting>[1]} cuts
 */
async function readCut(server, cuts) {
  const proxy = await cutting(server.address, cuts);
  try {
    const got = await read(resumingFetch(chat(proxy), POST));
    assert.ok(proxy.done, "a cut was not made");
    return got;
  } finally {
    proxy.close();
  }
}

// The head is some 150 bytes, and each chunk has its length beside it.
const MOST = CHUNKS.reduce((sum, { length }) => sum + length + 7, 150);

for (const [how, inPath, step] of [
  ["reset", false, 1],
  ["close", false, 3],
  ["reset", true, 11],
])
  test(`a cut answer is whole: ${how}, id ${inPath ? "in the path" : "behind ?"}, every ${step}`, async (t) => {
    const server = await keeping(t, CHUNKS, { inPath });
    const places = Array.from({ length: Math.floor(MOST / step) }, (_, n) => 1 + n * step);
    const one = async (at) =>
      assert.deepEqual(await readCut(server, [["down", at, how]]), [TEXT, "stop"], `at ${at}`);
    while (places.length) await Promise.all(places.splice(0, 20).map(one));
  });

test("an answer whose question was cut is asked for again, and not twice if it came", async (t) => {
  const server = await keeping(t, CHUNKS);
  for (let at = 0; at < 400; at += 13)
    assert.deepEqual(await readCut(server, [["up", at, "reset"]]), [TEXT, "stop"], `at ${at}`);
  server.asked.length = 0;
  assert.deepEqual(await readCut(server, [["down", 1, "reset"]]), [TEXT, "stop"]);
  assert.deepEqual(server.asked, ["POST /v1/chat/completions", "GET /v1/stream"]);
});

test("an answer is whole after many cuts, the later ones of the rest", async (t) => {
  const server = await keeping(t, CHUNKS);
  const cuts = [200, 150, 260, 190].map((at) => ["down", at, "reset"]);
  assert.deepEqual(await readCut(server, cuts), [TEXT, "stop"]);
});

test("an answer without [DONE] is whole, also where a cut looks like an end", async (t) => {
  const server = await keeping(t, CHUNKS.slice(0, -1));
  const answer = resumingFetch(chat(server), POST);
  assert.deepEqual(await read(answer), [TEXT, "stop"]);
  assert.deepEqual(server.asked, ["POST /v1/chat/completions", "GET /v1/stream"]);
  const plain = await keeping(t, CHUNKS.slice(0, -1), { keeps: false });
  assert.deepEqual(await read(resumingFetch(chat(plain), POST)), [TEXT, "stop"]);
});

test("a page that was loaded again reads the answer by its id", async (t) => {
  const server = await keeping(t, CHUNKS);
  const headers = { ...POST.headers, "X-Conversation-Id": "a chat / 1" };
  await read(resumingFetch(chat(server), { ...POST, headers }));
  server.asked.length = 0;
  const again = resumingFetch(chat(server), { headers });
  assert.deepEqual(await read(again), [TEXT, "stop"]);
  assert.deepEqual(server.asked, ["GET /v1/stream"]);
});

const LIMIT = { timeout: 20_000 };

for (const type of ["pageshow", "visibilitychange", "online"])
  test(`a page that is back (${type}) reads on at once, a hidden one not`, LIMIT, async (t) => {
    const window = new EventTarget();
    let listeners = 0;
    const listen = (...given) => {
      listeners++;
      window.addEventListener(...given);
    };
    const page = { document: { hidden: true }, addEventListener: listen };
    t.after(() => Object.keys(page).forEach((name) => Reflect.deleteProperty(globalThis, name)));
    Object.assign(globalThis, page);
    const server = await keeping(t, CHUNKS);
    const proxy = await cutting(server.address, [["down", MOST - 80, "reset"]]);
    const answer = readAnswer(resumingFetch(chat(proxy), POST));
    assert.equal((await answer.next()).value?.text, "né👩");
    t.mock.timers.enable({ apis: ["setTimeout"] }); // so the time of the next try never comes
    const next = answer.next();
    await until(() => listeners > 0);
    const asked = server.asked.length;
    window.dispatchEvent(new Event(type));
    for (let n = 0; n < 20; n++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(server.asked.length, asked);
    page.document.hidden = false;
    window.dispatchEvent(new Event(type));
    assert.equal((await next).value?.text, "\u200d🚀");
    t.mock.timers.reset();
    while (!(await answer.next()).done);
    proxy.close();
  });

test("what the server does not have any more is an error, after the text that came", async (t) => {
  for (const options of [{ keeps: false }, { forgets: 1 << 20 }]) {
    const server = await keeping(t, CHUNKS, options);
    const proxy = await cutting(server.address, [["down", MOST - 80, "reset"]]);
    const answer = readAnswer(resumingFetch(chat(proxy), POST));
    assert.deepEqual((await answer.next()).value, { channel: "content", text: "né👩" });
    await assert.rejects(
      async () => {
        for await (const part of answer) assert.equal(part.text, "\u200d🚀");
      },
      {
        name: "DetokError",
        kind: "network",
        isRetryable: true,
        message: /^The connection was lost \(.+\), and the server does not have the rest/,
      },
    );
    proxy.close();
  }
});

test("leaving the loop and aborting the signal stop the engine", LIMIT, async (t) => {
  for (const inPath of [false, true]) {
    const server = await keeping(t, CHUNKS.slice(0, -2), { inPath, ends: false });
    for await (const { text } of readAnswer(resumingFetch(chat(server), POST))) if (text) break;
    await until(() => server.asked.at(-1)?.startsWith("DELETE") === true && !server.kept.size);
    const stopping = new AbortController();
    const answer = readAnswer(resumingFetch(chat(server), { ...POST, signal: stopping.signal }));
    await answer.next();
    assert.equal(server.kept.size, 1);
    stopping.abort();
    await assert.rejects(async () => {
      while (!(await answer.next()).done);
    }, /AbortError|aborted/);
    await until(() => !server.kept.size);
    assert.ok(!server.asked.some((line) => line.startsWith("GET")), String(server.asked));
  }
});

test("other requests, and a server that is not there, are those of fetch", async (t) => {
  const server = await keeping(t, CHUNKS);
  const other = await resumingFetch(`${server.address}/v1/models`);
  assert.equal(other.status, 404);
  assert.equal((await other.json()).error.message, "File Not Found");
  assert.deepEqual(server.asked, ["GET /v1/models"]);
  const nobody = { address: "http://127.0.0.1:2" };
  await assert.rejects(resumingFetch(chat(nobody), POST), { name: "TypeError" });
});

test("a page or an error in the place of the rest is not read, and asked for a bounded number of times", async (t) => {
  for (const [cut, type, instead] of [
    [false, "text/html", "<!doctype html>\n<p>app</p>\n"],
    [true, "text/html", "<!doctype html>\n<p>app</p>\n"],
    [true, "application/json", '{"error":"unknown route"}'],
  ]) {
    let asked = 0;
    let text = "";
    const address = await serving(t, (request, answer) => {
      request.resume();
      const isFirst = request.method === "POST";
      if (!isFirst) asked++;
      answer.writeHead(200, { "content-type": isFirst ? "text/event-stream" : type });
      if (!isFirst) return void answer.end(instead);
      for (const chunk of CHUNKS.slice(0, cut ? 2 : 4)) answer.write(chunk);
      if (cut) until(() => text).then(() => answer.socket?.resetAndDestroy());
      else answer.end();
    });
    const options = { ...POST, signal: AbortSignal.timeout(60_000) };
    const answer = readAnswer(resumingFetch(chat({ address }), options));
    const read = async () => {
      for await (const delta of answer) text += delta.text;
    };
    if (cut) await assert.rejects(read(), { name: "DetokError" });
    else await read();
    assert.equal(text, cut ? "né👩" : TEXT);
    assert.ok(asked < 30, `asked ${asked} times`);
  }
});
