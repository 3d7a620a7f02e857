/**
 * host.js for Node, Deno and Bun: Python runs in the process, from files on the disk.
 *
 * Relative addresses are paths from the current folder.
 */

import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { bootPython } from "../src/boot-micropython.js";
import { filler } from "../src/boot-pyodide.js";
import { DetokError, asDetokError } from "../src/errors.js";
import { FOLDER } from "../src/pyodide-package.js";
import * as socket from "../src/socket.js";
import { streamCalls } from "../src/stream-calls.js";
import { fetch } from "./server-globals.js";

/** @typedef {import("../src/boot-micropython.js").Python} Python */

/** The base of relative addresses. */
export const base = () => pathToFileURL(`${process.cwd()}/`).href;

/** socket.js has no URL here: this file contains it. */
export const socketUrl = () => "";

/** Each URL is written out, so that bundlers find it. @returns {Record<string, string>} */
const ownFiles = () => ({
  "micropython.mjs": new URL("../runtime/micropython.mjs", import.meta.url).href,
  "micropython.wasm": new URL("../runtime/micropython.wasm", import.meta.url).href,
  "detok_micropython.bin": new URL("../runtime/detok_micropython.bin", import.meta.url).href,
});

/**
 * Boot Python in this process.
 * @param {import("../src/decoder.js").DecoderWorker} decoder  Receives batches and progress.
 * @param {import("../src/decoder.js").RuntimeOptions} options
 * @returns
 *   {[worker: {terminate(): void, ask: (name: string, ...args: any[]) => any},
 *   calls: import("../src/messages.js").Calls,
 *   ready: Promise<import("../src/decoder.js").RuntimeInfo>]}
 */
export function start(decoder, { runtime = "micropython", install, runtimeUrl }) {
  if (install === "micropip")
    throw new DetokError(
      "The option install is not for servers: Pyodide takes detok_py from its folder.",
      { kind: "option" },
    );
  /** @type {Python | undefined} */
  let python;
  const broken = (/** @type {string} */ sentence, /** @type {unknown} */ cause) =>
    decoder.die(
      new DetokError(`${sentence}: ${asDetokError(cause).message}`, {
        kind: "runtime",
        retry: true,
        cause,
      }),
    );
  /** @type {Record<string, (...args: any[]) => any>} */
  const methods = streamCalls(
    () => /** @type {Python} */ (python),
    ({ stream, ...batch }) => decoder.streams.get(stream)?.deref()?.take(batch),
    (cause) => broken("Python has broken down", cause),
    () => socket,
  );
  /** @param {string} name @param {unknown[]} args */
  const call = async (name, ...args) => {
    if (decoder.dead) throw decoder.dead;
    if (name === "connect") checkConnect(String(args[1]));
    return methods[name]?.(...args);
  };
  const boot = async () => {
    const began = performance.now();
    const files = ownFiles();
    const folder =
      runtimeUrl === undefined
        ? new URL("./", files["micropython.wasm"])
        : new URL(String(runtimeUrl).replace(/\/*$/, "/"), base());
    const file = (/** @type {string} */ name) =>
      (runtimeUrl === undefined && files[name]) || new URL(name, folder).href;
    const onProgress = (/** @type {any} */ progress) => {
      for (const watch of decoder.watchers) watch(progress);
    };
    try {
      const mine = Object.fromEntries(Object.keys(files).map((name) => [name, file(name)]));
      // micropython.mjs holds the interpreter's state, so each boot imports a copy of its own.
      mine["micropython.mjs"] += `?${Math.random()}`;
      python = await (runtime === "pyodide"
        ? bootPyodide(runtimeUrl === undefined ? new URL(FOLDER, folder) : folder, onProgress)
        : bootPython(folder.href, onProgress, { files: mine }));
    } catch (cause) {
      broken("Python could not be loaded", cause);
    }
    delete (/** @type {any} */ (globalThis).loadMicroPython); // the file sets it, for bundlers
    if (decoder.dead) throw decoder.dead;
    decoder.booted = true;
    const about = JSON.parse(/** @type {Python} */ (python).streams.about());
    const milliseconds = performance.now() - began;
    return { runtime, ...about, kept: false, milliseconds, bytes: 0, transferred: 0 };
  };
  const worker = {
    ask: methods.ask ?? call,
    terminate: () => {
      for (const stream of decoder.streams.keys()) {
        try {
          methods.tell?.(stream, "give_up"); // closes its socket
        } catch {
          // Python has broken down, and this socket is closed already.
        }
      }
      python = undefined;
    },
  };
  return [worker, { call, end() {} }, Promise.resolve().then(boot)];
}

/** @param {string} url */
function checkConnect(url) {
  if (!globalThis.WebSocket)
    throw new DetokError(
      "connect needs WebSocket, which Node has from version 22 on (in 20 with --experimental-websocket); " +
        "or read the engine's own answer with readAnswer of detok-web/fetch.",
      { kind: "runtime" },
    );
  if (!/^wss?:/.test(url))
    throw new DetokError(
      `connect needs an absolute address on a server, as ws://…/stream, not ${url}.`,
      { kind: "option" },
    );
}

/**
 * @param {URL} folder
 * @param {import("../src/boot-micropython.js").OnProgress} onProgress
 * @returns {Promise<Python>}
 */
async function bootPyodide(folder, onProgress) {
  onProgress({ step: "starting Pyodide", loaded: 0, total: 0 });
  const { loadPyodide } = await import(
    /* webpackIgnore: true */ /* @vite-ignore */ new URL("pyodide.mjs", folder).href
  );
  const { info } = await (await fetch(new URL("python_core.json", folder))).json();
  const python = await loadPyodide({
    indexURL: fileURLToPath(folder),
    stdLibURL: fileURLToPath(new URL("python_core.zip", folder)),
    packageBaseUrl: fileURLToPath(folder),
    lockFileContents: { info, packages: {} },
    stdout: () => {},
    stderr: () => {},
  });
  const streams = python.pyimport("detok_py.page.streams");
  return {
    interpreter: python,
    kept: false,
    streams,
    fill: filler(streams),
    // A Blob is read into memory: only workers have a synchronous reader of files.
    async pack(name, file) {
      python.FS.writeFile(`/${name}`, new Uint8Array(await file.arrayBuffer()));
      const packed = streams.pack_tokenizer(`/${name}`);
      try {
        return packed.toJs();
      } finally {
        packed.destroy();
      }
    },
  };
}
