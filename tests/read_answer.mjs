// `node read_answer.mjs` reads [content type or null, body, cut] as JSON lines on stdin, and writes
// for each what readAnswer makes of it.

import { createInterface } from "node:readline";
import { readAnswer } from "../web/src/fetch.js";

for await (const line of createInterface({ input: process.stdin })) {
  const [type, body, cut] = JSON.parse(line);
  const bytes = new TextEncoder().encode(body);
  const source = new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += cut) controller.enqueue(bytes.slice(at, at + cut));
      controller.close();
    },
  });
  const response = new Response(source, { headers: type === null ? {} : { "content-type": type } });
  const said = { content: "", reasoning: "", tool_call: "", reason: null, error: null };
  try {
    const answer = readAnswer(response);
    let part = await answer.next();
    for (; !part.done; part = await answer.next()) said[part.value.channel] += part.value.text;
    said.reason = part.value ?? null;
  } catch (error) {
    said.error = [error.name, error.kind, error.message];
  }
  console.log(JSON.stringify(said));
}
