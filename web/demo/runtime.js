/**
 * Which Python decodes: the picker, the progress while it loads, and what it cost on this visit.
 *
 * The choice stands in the address (`?runtime=micropython`), so that it survives a reload and can
 * be linked. Out: `runtimeOptions()`, which every call of the library takes, and `loadRuntime()`.
 */

import { shutDown, warmUp } from "../src/index.js";
import { element, writeParameter } from "./dom.js";
import { isSite } from "./site.js";
import { firstRuntime, firstStart, optionsFor } from "./start.js";

/** @typedef {import("./start.js").Runtime} Runtime */
/** @typedef {import("../src/index.js").RuntimeInfo} RuntimeInfo */

const picker = element("runtime", HTMLFieldSetElement);
const loading = element("loading", HTMLElement);
const bar = element("loading-bar", HTMLProgressElement);
const step = element("loading-step", HTMLElement);
const amount = element("loading-bytes", HTMLElement);
const costs = element("costs", HTMLElement);
const name = element("runtime-name", HTMLElement);

/** What a first visit reads of a bridge's runtime folder. @type {Record<Runtime, RegExp>} */
const READ = {
  pyodide:
    /^(pyodide\.(asm\.)?(mjs|wasm)|python_stdlib\.zip|(memory|detok_bytecode)\.bin|(micropip|detok_py)-[^-]+-py3-none-any\.whl)$/,
  micropython: /^(micropython\.(mjs|wasm)|detok_micropython\.bin)$/,
};

/** @type {Runtime} */
let chosen = firstRuntime;
let started = firstRuntime;
let began = firstStart;
let loads = 0;
/** Which Python and which detok run, for a report. */
let running = "not loaded";

/** "0.1.0 in Python 3.14 (pyodide)". */
export const runtimeName = () => running;

/** The library's options for the chosen runtime. */
export const runtimeOptions = () => optionsFor(chosen);

/**
 * Start the chosen runtime, and end the other one if it runs.
 * @param {(error: Error) => void} onGone  Called when its worker has ended, for whatever reason.
 */
export async function loadRuntime(onGone) {
  const runtime = chosen;
  checkWebAssembly();
  if (started !== runtime) shutDown();
  started = runtime;
  if (loads++) began = performance.now();
  step.textContent = "Starting…";
  amount.textContent = "";
  bar.value = 0; // a bar without a value would be drawn again and again while Python starts
  const info = await warmUp({
    ...runtimeOptions(),
    onGone,
    onProgress({ step: name, loaded, total }) {
      if (runtime !== chosen) return;
      step.textContent = name;
      if (total) bar.value = loaded / total;
      amount.textContent = total ? `${megabytes(loaded)} of ${megabytes(total)} MB` : "";
    },
  });
  void showCost(runtime, performance.now() - began, info);
  running = `${info.detok} in ${info.python} (${runtime})`;
  const [, version = ""] = /(\d+\.\d+)/.exec(info.python) ?? [];
  name.textContent =
    runtime === "pyodide" ? `Python ${version} in WebAssembly` : `MicroPython in WebAssembly`;
}

/**
 * Say at once, and by its cause, that this browser runs no WebAssembly: the worker would report
 * only that it did not start.
 */
function checkWebAssembly() {
  try {
    // The eight bytes of an empty module.
    new WebAssembly.Module(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0));
  } catch (error) {
    const why = typeof WebAssembly === "undefined" ? "it is switched off" : String(error);
    throw new Error(
      `This browser does not run WebAssembly here, which Python needs (${why}). Allow it for this page, as in the settings for JavaScript optimization or in Lockdown Mode, then try again.`,
      { cause: error },
    );
  }
}

/** @param {() => void} change  Called when another runtime was chosen, to load it. */
export function onRuntimeChange(change) {
  picker.addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLInputElement)) return;
    chosen = target.value === "micropython" ? "micropython" : "pyodide";
    writeParameter("runtime", chosen === "pyodide" ? "" : chosen);
    change();
  });
}

/** @param {{loading: boolean, streaming: boolean}} state */
export function showRuntime({ loading: isLoading, streaming }) {
  loading.hidden = !isLoading;
  costs.hidden = isLoading;
  picker.disabled = streaming;
}

/** @param {Runtime} runtime @param {number} milliseconds @param {RuntimeInfo} info */
async function showCost(runtime, milliseconds, { transferred, kept }) {
  const seconds = (milliseconds / 1000).toFixed(2);
  const memory = kept ? ", with its memory of an earlier visit" : "";
  const said = element(`cost-${runtime}`, HTMLElement);
  said.textContent = `ready in ${seconds} s${memory}`;
  // Browsers differ in what they say of compressed files. A bridge knows the sizes of its files.
  const bytes = isSite ? 0 : await firstBytes(runtime).catch(() => 0);
  if (bytes) said.textContent += `; a first visit reads ${megabytes(bytes)} MB, compressed`;
  else if (isSite && transferred)
    said.textContent += `, ${megabytes(transferred)} MB over the network`;
}

/**
 * How many bytes a first visit reads from a bridge; 0 if that is not known.
 * @param {Runtime} runtime
 */
async function firstBytes(runtime) {
  const answer = await fetch("runtime/manifest.json");
  /** @type {[string, {bytes: number, packed?: number}][]} */
  const files = Object.entries(await answer.json());
  const read = files.filter(([name]) => READ[runtime].test(name));
  // Without `packed`, only wheels are sent as they are.
  if (read.some(([name, { packed }]) => !packed && !name.endsWith(".whl"))) return 0;
  return read.reduce((sum, [, { bytes, packed = bytes }]) => sum + packed, 0);
}

/** @param {number} bytes */
function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1);
}

for (const radio of picker.querySelectorAll("input")) radio.checked = radio.value === chosen;
