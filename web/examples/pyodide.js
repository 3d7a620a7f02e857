import { loadPyodide } from "/runtime/pyodide.mjs";

const at = (id) => document.getElementById(id);
// This standard library has detok_py in it, and only what it needs.
const python = await loadPyodide({ indexURL: "/runtime/", stdLibURL: "/runtime/python_core.zip" });
const decoder = python.pyimport("detok_py").StreamingDetokenizer();
const reader = (await fetch("recorded.txt")).body.getReader();
for (let part = await reader.read(); !part.done; part = await reader.read()) {
  const chunk = python.toPy(part.value);
  at("content").append(decoder.feed(chunk));
  chunk.destroy();
}
at("content").append(decoder.flush());
at("status").textContent = "Finished.";
