// Gives each example that build_site.py has marked a button that runs it, and a place for what it
// shows.
//
// Python is loaded by the first click, from the site itself. An example needs the names of those
// above it, so they run first. Without this script the page reads as it was written.

/** @type {Worker | undefined} */
let worker;
/** @type {Map<number, (result: {text: string, whole: boolean}) => void>} */
const waiting = new Map();
let last = 0;

/** @param {string[]} blocks @returns {Promise<{text: string, whole: boolean}>} */
function ask(blocks) {
  if (!worker) {
    worker = new Worker(new URL("run-worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data: { id, ...result } }) => {
      waiting.get(id)?.(result);
      waiting.delete(id);
    };
    worker.onerror = (event) => {
      const result = { text: `Python could not start: ${event.message}`, whole: false };
      for (const answer of waiting.values()) answer(result);
      waiting.clear();
      worker = undefined;
    };
  }
  const id = (last += 1);
  const answered = new Promise((resolve) => waiting.set(id, resolve));
  worker.postMessage({ id, blocks });
  return answered;
}

/** @type {NodeListOf<HTMLElement>} */
const marked = document.querySelectorAll("code[data-run]");
const examples = [...marked];
const ran = new Set();

examples.forEach((code, at) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Run";
  button.setAttribute("aria-label", `Run example ${at + 1}`);
  const output = document.createElement("output");
  output.setAttribute("aria-label", `Output of example ${at + 1}`);
  const place = document.createElement("div");
  place.className = "run";
  place.append(button, output);
  code.parentElement?.after(place);

  button.onclick = async () => {
    if (output.dataset.state === "running") return;
    output.dataset.state = "running";
    output.textContent = worker ? "Running…" : "Loading Python…";
    // Those that ran keep their names; one that is run again begins from those.
    const before = examples.slice(0, at).filter((each) => !ran.has(each));
    const { text, whole } = await ask([...before, code].map((each) => each.innerText));
    if (whole) for (const each of [...before, code]) ran.add(each);
    output.textContent = text.trimEnd() || "No output.";
    output.dataset.state = whole ? "finished" : "failed";
  };
});
