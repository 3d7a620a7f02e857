/**
 * The library for servers, in this process: streams, files, errors, and a Python that breaks down.
 */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { buildServer } from "../../tools/hosts.mjs";
import { keeping, serving } from "./kept-answers.mjs";
import { inParts, listOf } from "./streams.mjs";

const root = resolve(import.meta.dirname, "..", "..");
const folder = mkdtempSync(join(tmpdir(), "detok-server-"));
const file = join(folder, "node", "index.js");
const known = Object.keys(globalThis);
let vocabularyFile;
let lib;

/** Pack a vocabulary. @param {string} name  Of its file. @param {string} making  In Python. */
function pack(name, making) {
  const path = join(folder, name);
  const script = `import sys
from detok_py import Vocabulary
${making}
open(sys.argv[1], "wb").write(vocabulary.pack())`;
  execFileSync(join(root, ".venv", "bin", "python"), ["-c", script, path]);
  return path;
}

before(async () => {
  const from = (name) => `from ${JSON.stringify(join(root, "web", "src", name))};`;
  const contents = `export * ${from("index.js")} export { decoderWorker } ${from("decoder.js")} export { readAnswer, resumingFetch } ${from("fetch.js")}`;
  await buildServer(join(root, "web"), { stdin: { contents, resolveDir: root }, outfile: file });
  symlinkSync(join(root, ".build", "runtime"), join(folder, "runtime"));
  const bytes = "vocabulary = Vocabulary.from_bytes([bytes([n]) for n in range(256)])";
  vocabularyFile = pack("bytes.detok", bytes);
  lib = await import(pathToFileURL(file).href);
});
after(() => rmSync(folder, { recursive: true }));

const TEXT = "naïve 你好 👩‍🚀 שלום 🇩🇪";
const bytesOf = (text) => [...new TextEncoder().encode(text)];
const textOf = async (stream) => (await listOf(stream)).join("");
const sourceOf = (chunks) => ReadableStream.from(chunks);

test("bytes and ids become text, and a stop cancels the source", async () => {
  const stopped = bytesOf(`${TEXT}</s> and nothing more`).map((byte) => Uint8Array.of(byte));
  const stream = new lib.DetokStream({ stop: "</s>" });
  assert.equal(await textOf(sourceOf(stopped).pipeThrough(stream)), TEXT);
  assert.equal((await stream.finished).reason, "stop");
  const vocabulary = await lib.loadVocabulary(pathToFileURL(vocabularyFile));
  const ids = sourceOf(bytesOf(TEXT)).pipeThrough(new lib.DetokStream({ vocabulary }));
  assert.equal(await textOf(ids), TEXT);
});

test("bytes come in any container, and invalid ones are replaced unless they are an error", async () => {
  const bytes = Uint8Array.of(0x41, 0xc3, 0xa9, 0xff, 0x42);
  for (const chunk of [bytes, bytes.buffer, new DataView(bytes.buffer)])
    assert.equal((await lib.createDecoder()).feed(chunk), "Aé\ufffdB");
  assert.equal((await lib.createDecoder()).feed(new DataView(bytes.buffer, 1, 2)), "é");
  const fatal = await lib.createDecoder({ fatal: true });
  assert.equal(fatal.feed(bytes), "Aé");
  assert.throws(() => fatal.feed(Uint8Array.of(0x43)), { name: "DetokError" });
});

test("a token may end text and begin a character", async () => {
  const halves = String.raw`vocabulary = Vocabulary.from_bytes([b"a\xe3\xbf", b"\xbf!"])`;
  const path = pack("halves.detok", halves);
  const decoder = await lib.createDecoder({ vocabulary: await lib.loadVocabulary(path) });
  const shown = [0, 1, 0, 1].map((id) => decoder.push(id));
  assert.deepEqual(shown, ["a", "\u3fff!", "a", "\u3fff!"]);
});

test("an AbortError of the writer is a wish to stop, and any other reason an error", async () => {
  const wish = new DOMException("enough", "AbortError");
  const expected = [
    [undefined, "cancelled"],
    [wish, "cancelled"],
    [new Error("lost"), "error"],
    [null, "error"],
  ];
  for (const [reason, told] of expected) {
    const stream = new lib.DetokStream();
    const writer = stream.writable.getWriter();
    await writer.ready;
    await writer.abort(reason);
    assert.equal((await stream.finished).reason, told);
  }
});

test("each push returns at once all that is certain: no text is late", async () => {
  const vocabulary = await lib.loadVocabulary(vocabularyFile); // a path
  const decoder = await lib.createDecoder({ vocabulary, stop: ["</s>"], reasoning: true });
  const shown = bytesOf("<think>x</think>é < </s>y").map((id) => decoder.push(id));
  const before = bytesOf("<think>x</think>").map(() => "");
  const expected = [...before, "", "é", " ", "", "< ", "", "", "", "", ""];
  assert.deepEqual(shown, expected);
  assert.deepEqual([decoder.finishReason, decoder.waiting], ["stop", 0]);
});

test("ids of one call give what they give one by one, whatever is among them", async () => {
  const vocabulary = await lib.loadVocabulary(vocabularyFile);
  const ids = bytesOf("a <think>x</think>é < c</s>y");
  for (let at = 0; at <= ids.length; at++) {
    const options = { vocabulary, stop: ["</s>"], reasoning: true };
    const decoder = await lib.createDecoder(options);
    const text = decoder.feed(ids.slice(0, at));
    assert.equal(text + decoder.feed(ids.slice(at)) + decoder.flush(), "a é < c");
    assert.equal(decoder.finishReason, "stop");
    const refused = await lib.createDecoder(options);
    const given = [...ids.slice(0, at), 99_999_999, ...ids.slice(at)];
    if (text) assert.equal(refused.feed(given), text);
    if (at < ids.length - 1)
      assert.throws(() => refused.feed(text ? [] : given), { name: "DetokError" });
  }
});

/** The vocabulary of a format: bytes, and two markers that are tokens. */
const markedVocabulary = () =>
  pack(
    "marked.detok",
    `tokens = [bytes([n]) for n in range(256)] + [b"<tool_call>", b"</tool_call>"]
vocabulary = Vocabulary.from_bytes(tokens, special_ids=[256, 257])
vocabulary.chat_format = "qwen3_hermes"`,
  );
const CALL = '{"name": "weather", "arguments": {"city": "Zürich"}}';
const MARKED = [...bytesOf("I look. "), 256, ...bytesOf(CALL), 257];
const CALLS = [
  { call: 0, id: null, name: "weather", arguments: '{"city": "Zürich"}', complete: true },
];

for (const runtime of ["micropython", "pyodide"])
  test(`the format of a vocabulary is read without being asked, in ${runtime}`, async () => {
    const vocabulary = await lib.loadVocabulary(markedVocabulary(), { runtime });
    assert.equal(vocabulary.format, "qwen3_hermes");
    for (const granularity of ["character", "grapheme"]) {
      const stream = new lib.DetokStream({ vocabulary, runtime, granularity, output: "deltas" });
      const deltas = await listOf(sourceOf(MARKED).pipeThrough(stream));
      const content = deltas.filter(({ channel }) => channel === "content");
      assert.equal(content.map(({ text }) => text).join(""), "I look. ");
      const [first, ...more] = deltas.filter(({ channel }) => channel === "tool_call");
      assert.deepEqual(first, { channel: "tool_call", text: "", call: 0, name: "weather" });
      assert.ok(more.every(({ call, name }) => call === 0 && name === undefined));
      assert.equal(more.map(({ text }) => text).join(""), CALLS[0].arguments);
      assert.ok(more.length > 10); // they come as the model writes them
      assert.deepEqual(
        more.filter(({ complete }) => complete),
        more.slice(-1),
      );
      assert.deepEqual(stream.calls, CALLS);
    }
    // Text only; and a second time, when all steps are known.
    for (let n = 0; n < 2; n++) {
      const decoder = await lib.createDecoder({ vocabulary, runtime });
      const shown = MARKED.map((id) => decoder.push(id));
      assert.equal(shown.join("") + decoder.flush() + (await decoder.ready()), "I look. ");
      assert.deepEqual(decoder.calls, CALLS);
    }
    const plain = await lib.createDecoder({ vocabulary, runtime, format: null });
    assert.equal(plain.feed(MARKED) + (await plain.ready()), `I look. ${CALL}`);
  });

test("bytes are read in a format by its name, with the schemas of the tools", async () => {
  const parameters = { properties: { zip: { type: "string" }, days: { type: "integer" } } };
  const toolSchemas = [{ type: "function", function: { name: "weather", parameters } }];
  const text =
    "<tool_call><function=weather><parameter=zip>10115</parameter><parameter=days>3</parameter></function></tool_call>";
  for (const cut of [1, 5, 1000]) {
    const stream = new lib.DetokStream({ format: "qwen3_coder", toolSchemas });
    const source = inParts(new Uint8Array(bytesOf(text)), cut);
    assert.equal(await textOf(source.pipeThrough(stream)), "");
    assert.equal(stream.calls[0].arguments, '{"zip": "10115", "days": 3}');
    assert.equal(stream.calls[0].complete, true);
  }
});

test("a value that is held for long is one step after another, and none is kept", async () => {
  const decoder = await lib.createDecoder({ format: "qwen3_coder" });
  const value = "word ".repeat(4000);
  const text = `<tool_call><function=f><parameter=a>${value}</parameter></function></tool_call>`;
  assert.equal(decoder.feed(new Uint8Array(bytesOf(text))), "");
  assert.deepEqual(JSON.parse(decoder.calls[0].arguments), { a: value });
});

test("a format that is none, or one beside tags of one's own, is refused by name", async () => {
  await assert.rejects(lib.createDecoder({ format: "harmonie" }), { message: /'harmonie'/ });
  await assert.rejects(lib.createDecoder({ format: "harmony", tools: ["<a>", "</a>"] }), {
    message: /leave them out/,
  });
});

test("nothing is left in globalThis, and a second copy of the library has a Python of its own", async () => {
  const other = await import(`${pathToFileURL(file).href}?second`);
  const [mine, theirs] = await Promise.all(
    [lib, other].map((each) => each.createDecoder({ stop: ["STOP"], reasoning: true })),
  );
  const feed = (decoder) => decoder.feed(new Uint8Array(bytesOf("a ST STOP"))) + decoder.flush();
  assert.deepEqual([feed(mine), feed(theirs)], ["a ST ", "a ST "]);
  const left = Object.keys(globalThis).filter((name) => !known.includes(name));
  assert.deepEqual(left, []);
  other.shutDown();
});

test("Pyodide decodes the same, and packs a tokenizer file", async () => {
  const decoder = await lib.createDecoder({ runtime: "pyodide", stop: ["STOP"] });
  assert.equal(decoder.feed(new Uint8Array(bytesOf("é ST"))), "é ");
  assert.match((await lib.warmUp({ runtime: "pyodide" })).python, /^cpython/);
  const tokenizer = {
    version: "1.0",
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: { type: "Fuse" },
    model: { type: "BPE", vocab: { a: 0, b: 1 }, merges: [] },
  };
  const path = join(folder, "tokenizer.json");
  writeFileSync(path, JSON.stringify(tokenizer));
  const vocabulary = await lib.loadVocabulary(path);
  assert.equal(vocabulary.size, 2);
  const ids = await lib.createDecoder({ vocabulary });
  assert.equal(ids.feed([0, 1, 0]) + ids.flush(), "aba");
});

test("what is missing is named", async () => {
  const nowhere = { name: "DetokError", kind: "runtime", message: /nowhere\/micropython\.mjs/ };
  await assert.rejects(lib.createDecoder({ stop: ["x"], runtimeUrl: "/nowhere" }), nowhere);
  const missing = { name: "DetokError", kind: "network", message: /nothing\.detok.*ENOENT/ };
  await assert.rejects(lib.loadVocabulary(join(folder, "nothing.detok")), missing);
  const micropip = lib.createDecoder({ stop: ["x"], runtime: "pyodide", install: "micropip" });
  await assert.rejects(micropip, { kind: "option", message: /install/ });
});

test("a vocabulary that is not the wanted one, or does not come, is an error that says so", async (t) => {
  const other = {
    name: "DetokError",
    code: 4409,
    message: / is [0-9a-f]{12}… and 0{12}… was asked/,
  };
  await assert.rejects(lib.loadVocabulary(vocabularyFile, { sha256: "0".repeat(64) }), other);
  const url = `${await serving(t, () => {})}/x.detok`;
  const late = { kind: "network", message: /nothing came for 0\.05 s/ };
  await assert.rejects(lib.loadVocabulary(url, { timeout: 50 }), late);
});

test("a kept vocabulary is used if the server says nothing or is busy, and one that breaks off is an error", async (t) => {
  const packed = readFileSync(vocabularyFile);
  let version = "1";
  let sent = packed.length;
  let requests = 0;
  const address = await serving(t, (_, response) => {
    requests++;
    if (version === "silent") return;
    if (version === "busy") return void response.writeHead(503).end("starting");
    response.writeHead(200, { etag: version, "content-length": packed.length });
    response.write(packed.subarray(0, sent));
  });
  const kept = new Map();
  globalThis.caches = {
    open: async () => ({
      match: async (url) => kept.get(String(url))?.clone(),
      put: async (url, response) => void kept.set(String(url), response),
    }),
  };
  t.after(() => delete globalThis.caches);
  const url = `${address}/x.detok`;
  const load = (timeout) => lib.loadVocabulary(url, { timeout });
  const { sha256 } = await load();
  assert.equal((await load()).sha256, sha256);
  requests = 0;
  const stopping = new AbortController();
  const aborted = lib.loadVocabulary(url, { signal: stopping.signal });
  stopping.abort(); // before the request has begun
  await assert.rejects(aborted, { name: "AbortError" });
  assert.equal(requests, 0);
  version = "silent";
  assert.equal((await load(50)).sha256, sha256);
  version = "busy";
  assert.equal((await load()).sha256, sha256);
  [version, sent] = ["2", 100];
  // Long enough for the answer to begin, also on busy cores.
  await assert.rejects(load(1000), { kind: "network", message: /nothing came for 1 s/ });
});

test("a timeout without end waits, and null is no option where it says nothing", async (t) => {
  const address = await serving(t, (_, response) =>
    setTimeout(() => response.end(readFileSync(vocabularyFile)), 20),
  );
  for (const timeout of [Infinity, 2 ** 31, null])
    assert.equal((await lib.loadVocabulary(`${address}/x.detok`, { timeout })).size, 256);
  const vocabulary = await lib.loadVocabulary(markedVocabulary());
  const names = "stop promptIds skipSpecialTokens unknown runtimeUrl granularity";
  const none = Object.fromEntries(names.split(" ").map((name) => [name, null]));
  const decoder = await lib.createDecoder({ vocabulary, ...none });
  assert.equal(decoder.feed(MARKED) + decoder.flush(), "I look. ");
  const plain = await lib.createDecoder({ vocabulary, ...none, format: null });
  assert.equal(plain.feed(MARKED) + plain.flush(), `I look. ${CALL}`);
});

test("resumingFetch asks with its method, its headers and its body", async (t) => {
  const event = 'data: {"choices":[{"delta":{"content":"é"},"finish_reason":"stop"}]}\n\n';
  const server = await keeping(t, [Buffer.from(event), Buffer.from("data: [DONE]\n\n")]);
  const url = `${server.address}/v1/chat/completions`;
  const parts = lib.readAnswer(lib.resumingFetch(url, { method: "POST", body: "{}" }));
  assert.deepEqual((await parts.next()).value, { channel: "content", text: "é" });
  assert.deepEqual(server.asked, ["POST /v1/chat/completions"]);
});

test("connect needs a WebSocket and a whole address, and says so", async (t) => {
  const given = globalThis.WebSocket;
  t.after(() => (globalThis.WebSocket = given));
  globalThis.WebSocket = undefined;
  const without = await lib.connect("ws://127.0.0.1:1/stream", { prompt: "" }).finished;
  assert.deepEqual([without.reason, without.error.kind], ["error", "runtime"]);
  assert.match(without.error.message, /Node has from version 22/);
  globalThis.WebSocket = class {};
  const relative = await lib.connect("/stream", { prompt: "" }).finished;
  assert.deepEqual([relative.reason, relative.error.kind], ["error", "option"]);
  assert.match(relative.error.message, /absolute address/);
});

test("a Python that breaks down is replaced, and no text is lost", async (t) => {
  const options = { stop: ["STOP"], tools: true };
  const { instantiate } = WebAssembly;
  t.after(() => (WebAssembly.instantiate = instantiate));
  let memory;
  WebAssembly.instantiate = async (...words) => {
    const made = await instantiate(...words);
    memory ??= Object.values(made.instance.exports).find(
      (one) => one instanceof WebAssembly.Memory,
    );
    return made;
  };
  lib.shutDown();
  const decoder = await lib.createDecoder(options);
  let text = decoder.feed(new Uint8Array(bytesOf("é ST")));
  const broken = lib.decoderWorker(options);
  new Uint8Array(memory.buffer).fill(255);
  text += decoder.feed(new Uint8Array(bytesOf("AY < S")));
  text += (await decoder.ready()) + decoder.flush() + (await decoder.ready());
  assert.equal(text, "é STAY < S");
  assert.notEqual(lib.decoderWorker(options), broken);
  assert.ok(broken.dead.isRetryable);
});

test("a Python that boots again is not ended by another stream", async () => {
  const options = { stop: ["STOP"], reasoning: true, startWithReasoning: false };
  const parts = ["a <", "thi", "ngs> b", "c <th", "ing", " S", "TART"];
  await lib.createDecoder(options);
  const run = async (n) => {
    const stream = new lib.DetokStream(options);
    const text = textOf(stream.readable);
    const writer = stream.writable.getWriter();
    for (const [at, part] of parts.entries()) {
      // Each stream needs steps that no other has asked for.
      await writer.write(new Uint8Array(bytesOf(at === 1 || at === 4 ? part + n : part)));
      if (!n && !at) lib.decoderWorker(options).die(new lib.DetokError("gone", { retry: true }));
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    await writer.close();
    return text;
  };
  const expected = [0, 1, 2].map((n) => `a <thi${n}ngs> bc <thing${n} START`);
  assert.deepEqual(await Promise.all([0, 1, 2].map(run)), expected);
});
