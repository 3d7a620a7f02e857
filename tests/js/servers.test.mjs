// What servers send is read as tests/vectors/servers.json says, cut anywhere. Without Python, in
// Node.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { readAnswer } from "../../web/src/fetch.js";
import { inParts } from "./streams.mjs";

const { vectors } = JSON.parse(
  readFileSync(new URL("../vectors/servers.json", import.meta.url), "utf8"),
);
const TYPES = {
  events: "text/event-stream",
  lines: "application/x-ndjson",
  json: "application/json",
  parts: "text/plain; charset=utf-8",
};

/** The body of a vector as it is sent. @param {any} vector */
function bodyOf({ kind, body, done }) {
  if (kind === "json") return JSON.stringify(body, null, 2);
  const lines = kind === "parts" ? body : body.map((one) => JSON.stringify(one));
  if (kind !== "events") return lines.map((line) => `${line}\n`).join("");
  if (done) lines.push(done === true ? "[DONE]" : done);
  return lines.map((line) => `data: ${line}\n\n`).join("");
}

/** @param {any} vector @param {number} cut */
async function read(vector, cut) {
  const bytes = new TextEncoder().encode(bodyOf(vector));
  const headers = { "content-type": TYPES[vector.kind] };
  if (vector.kind === "parts") headers["x-vercel-ai-data-stream"] = "v1";
  const got = { content: "", reasoning: "", tool_call: "", finish: undefined, error: "" };
  try {
    const answer = readAnswer(new Response(inParts(bytes, cut), { headers }));
    let part = await answer.next();
    const calls = [];
    for (; !part.done; part = await answer.next()) {
      const { channel, text, call, name } = part.value;
      if (call === undefined) got[channel] += text;
      else (calls[call] ??= [name, ""])[1] += text;
    }
    got.tool_call = calls
      .map(([name, given]) => `{"name": ${JSON.stringify(name)}, "arguments": ${given}}`)
      .join("\n");
    got.finish = part.value;
  } catch (error) {
    got.error = error.message;
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
    const answer = readAnswer(new Response(body, { headers }));
    await assert.rejects(answer.next(), { message: "no", code: expected });
  }
});
