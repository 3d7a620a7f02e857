// What servers send is read as tests/vectors/servers.json says, cut anywhere. Without Python, in
// Node.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { readAnswer } from "../../web/src/fetch.js";

const { vectors } = JSON.parse(
  readFileSync(new URL("../vectors/servers.json", import.meta.url), "utf8"),
);
const TYPES = {
  events: "text/event-stream",
  lines: "application/x-ndjson",
  json: "application/json",
};

/** The body of a vector as it is sent. @param {any} vector */
function bodyOf({ kind, body, done }) {
  if (kind === "json") return JSON.stringify(body, null, 2);
  const lines = kind === "parts" ? body : body.map((/** @type {any} */ one) => JSON.stringify(one));
  if (kind !== "events") return lines.map((/** @type {string} */ line) => `${line}\n`).join("");
  if (done) lines.push(done === true ? "[DONE]" : done);
  return lines.map((/** @type {string} */ line) => `data: ${line}\n\n`).join("");
}

/** @param {any} vector @param {number} cut */
async function read(vector, cut) {
  const bytes = new TextEncoder().encode(bodyOf(vector));
  const source = new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += cut) controller.enqueue(bytes.slice(at, at + cut));
      controller.close();
    },
  });
  /** @type {Record<string, string>} */
  const headers =
    vector.kind === "parts"
      ? { "content-type": "text/plain; charset=utf-8", "x-vercel-ai-data-stream": "v1" }
      : { "content-type": TYPES[/** @type {keyof typeof TYPES} */ (vector.kind)] };
  /** @type {Record<string, string | undefined>} */
  const got = { content: "", reasoning: "", tool_call: "", finish: undefined, error: "" };
  try {
    const answer = readAnswer(new Response(source, { headers }));
    let part = await answer.next();
    /** @type {string[][]} */
    const calls = [];
    for (; !part.done; part = await answer.next()) {
      const { channel, text, call, name } = part.value;
      if (call === undefined) got[channel] += text;
      else (calls[call] ??= [/** @type {string} */ (name), ""])[1] += text;
    }
    got.tool_call = calls
      .map(([name, given]) => `{"name": ${JSON.stringify(name)}, "arguments": ${given}}`)
      .join("\n");
    got.finish = part.value;
  } catch (error) {
    got.error = /** @type {Error} */ (error).message;
  }
  return got;
}

for (const vector of vectors)
  test(vector.name, async () => {
    for (const cut of [1 << 20, 7, 1]) {
      const { error, ...got } = await read(vector, cut);
      const { content = "", reasoning = "", tool_call = "", finish } = vector;
      assert.deepEqual(got, { content, reasoning, tool_call, finish }, error);
      if (vector.error) assert.ok(error?.includes(vector.error), error);
      else assert.equal(error, "");
    }
  });

test("an error has the server's code, if that is one", async () => {
  for (const [code, expected] of [
    ["500", 500],
    ["99", undefined],
    ["100", 100],
    ["4999", 4999],
    ["5000", undefined],
    ['"x"', undefined],
    ["9".repeat(4000), undefined],
  ]) {
    const body = `data: {"error":{"message":"no","code":${code}}}\n\n`;
    const headers = { "content-type": "text/event-stream" };
    await assert.rejects(readAnswer(new Response(body, { headers })).next(), (error) => {
      assert.deepEqual([error.message, error.code], ["no", expected]);
      return true;
    });
  }
});
