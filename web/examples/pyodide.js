import { loadPyodide } from "/runtime/pyodide.mjs";

const at = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
// This standard library contains detok_py and only the modules that it needs.
const python = await loadPyodide({ indexURL: "/runtime/", stdLibURL: "/runtime/python_core.zip" });
const decoder = python.pyimport("detok_py").StreamingDetokenizer();
const { body } = await fetch("recorded.txt");
const reader = /** @type {ReadableStream<Uint8Array>} */ (body).getReader();
for (let part = await reader.read(); !part.done; part = await reader.read()) {
  const chunk = python.toPy(part.value);
  at("content").append(decoder.feed(chunk));
  chunk.destroy();
}
at("content").append(decoder.flush());
at("status").textContent = "Finished.";
