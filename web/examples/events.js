import { readAnswer } from "/src/fetch.js"; // "detok-web/fetch"

const at = (id) => document.getElementById(id);
// An engine's own: fetch("/v1/chat/completions", { method: "POST", headers, body: JSON.stringify({ messages, stream: true }) })
const response = fetch("recorded.sse");
try {
  for await (const { channel, text } of readAnswer(response, { reasoning: true })) at(channel).append(text);
  at("status").textContent = "Finished.";
} catch (error) {
  at("status").textContent = error.message;
}
