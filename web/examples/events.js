import { readAnswer } from "/src/fetch.js"; // "detok-web/fetch"

const at = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
// From an engine: fetch("/v1/chat/completions", { method: "POST", headers, body })
// with body = JSON.stringify({ messages, stream: true }).
const response = fetch("recorded.sse");
try {
  for await (const { channel, text } of readAnswer(response, { reasoning: true }))
    at(channel).append(text);
  at("status").textContent = "Finished.";
} catch (error) {
  at("status").textContent = /** @type {Error} */ (error).message;
}
