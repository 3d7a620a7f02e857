// `node cut_llama_server.mjs URL` reads an answer of a llama-server with resumingFetch, cut once at
// every byte, and writes what was read: {"whole": …, "places": …, "others": […]}.

import { readAnswer, resumingFetch } from "../web/src/fetch.js";
import { cutting } from "./js/kept-answers.mjs";

const url = new URL(process.argv[2] ?? "");
const body = JSON.stringify({
  messages: [{ role: "user", content: "flags: " }],
  stream: true,
  temperature: 0,
  max_tokens: 8,
});
const request = { method: "POST", headers: { "content-type": "application/json" }, body };

/** @param {Promise<Response>} response */
async function textOf(response) {
  let text = "";
  try {
    for await (const delta of readAnswer(response)) text += delta.text;
  } catch (error) {
    text += String(error);
  }
  return text;
}

/** @param {number} place */
async function readCut(place) {
  const proxy = await cutting(url.href, [["down", place, "reset"]]);
  const answer = `${proxy.address}/v1/chat/completions`;
  const text = await textOf(resumingFetch(answer, request));
  proxy.close();
  return text;
}

const answer = new URL("/v1/chat/completions", url);
const { length } = await (await fetch(answer, request)).text();
const whole = await textOf(fetch(answer, request));
const places = Array.from({ length }, (_, n) => n + 1);
const others = [];
while (places.length)
  for (const text of await Promise.all(places.splice(0, 4).map(readCut)))
    if (text !== whole) others.push(text);
console.log(JSON.stringify({ whole, places: length, others }));
