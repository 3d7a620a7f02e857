import { DetokStream } from "/src/index.js"; // "detok-web"

const at = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const show = new WritableStream({ write: (text) => at("content").append(text) });
try {
  const { body } = await fetch("recorded.txt"); // any body of UTF-8, cut anywhere
  await body?.pipeThrough(new DetokStream({ granularity: "grapheme" })).pipeTo(show);
  at("status").textContent = "Finished.";
} catch (error) {
  at("status").textContent = /** @type {Error} */ (error).message;
}
