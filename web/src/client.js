/**
 * The page's side of the worker: boot it, open streams, hear their batches.
 *
 * `PythonWorker` is one worker with Python in it, and serves any number of streams. `EngineStream` is one answer: an
 * EventTarget that says what came, in order, and ends exactly once. When the worker dies, all of them end with an error.
 */

import { makeCalls, whenGone } from "./messages.js";

/** @typedef {import("./runtime.js").Progress} Progress */
/** @typedef {import("./socket.js").Batch} Batch */

/**
 * A token as Python tells it: id or null, its bytes in hex, the text that it made certain, the bytes held after it in hex,
 * the text that a stop string holds after it, and its name where it is special and skipped.
 * @typedef {[id: number | null, bytes: string, text: string, held: string, heldText: string, name?: string | null]} TokenRow
 *
 * @typedef {object} StreamRequest
 * @property {string} [prompt]
 * @property {{role: string, content: string}[]} [messages]
 * @property {Record<string, unknown>} [params]
 * @property {"ids" | "bytes" | "both"} [want]
 * @property {string[]} [stop]  Strings that end the text; held back as long as one could still come.
 * @property {boolean} [single_bytes]  Each raw byte is a row of its own.
 * @property {string} [id]  What this run is to be called: 16 to 64 characters, never used before.
 * @property {string} [resume]  The id of a run that an earlier page or worker began: it comes again from its beginning.
 *
 * @typedef {{type: "finished", reason: string, note: string | null, position: number, text: string}} FinishedEvent
 * @typedef {{type: "failed", code: number, message: string, retry: boolean, position: number, text: string}} FailedEvent
 */

/** The runtime could not be loaded, or the worker that had it is gone. */
export class RuntimeError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "RuntimeError";
  }
}

/** @type {{createScriptURL(url: string): unknown} | undefined} */
let policy;

/** The worker's script, as a type that `require-trusted-types-for 'script'` takes. */
function workerScript() {
  const url = new URL("./worker.js", import.meta.url).href;
  const { trustedTypes } = /** @type {any} */ (globalThis);
  if (!trustedTypes) return url;
  policy ??= trustedTypes.createPolicy("detok", { createScriptURL: (/** @type {string} */ given) => given });
  return /** @type {string} */ (/** @type {any} */ (policy).createScriptURL(url));
}

/** A worker with Python in it. */
export class PythonWorker {
  /**
   * @param {object} options
   * @param {string | URL} options.runtimeUrl  The folder with the runtime, ending in "/".
   * @param {number} [options.timeout]  Milliseconds without any progress after which booting is given up.
   * @param {(progress: Progress) => void} [options.onProgress]
   * @param {(error: Error) => void} [options.onGone]  The worker has ended, whatever ended it; what is still open fails after this.
   */
  constructor({ runtimeUrl, timeout = 30_000, onProgress = () => {}, onGone = () => {} }) {
    this.#onGone = onGone;
    this.#worker = new Worker(workerScript(), { type: "module", name: "detok" });
    /** @type {Progress} */
    let last = { step: "starting the worker", loaded: 0, total: 0 };
    let waited = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
    const wait = () => {
      clearTimeout(waited);
      waited = setTimeout(() => {
        const amount = last.total ? ` (${megabytes(last.loaded)} of ${megabytes(last.total)} MB)` : "";
        this.#die(
          new RuntimeError(
            `Python could not be loaded: nothing came for ${Math.round(timeout / 100) / 10} s at “${last.step}”${amount}. ` +
              "Check that the bridge is running and that this browser allows WebAssembly, then press Try again.",
          ),
        );
      }, timeout);
    };
    this.#calls = makeCalls(this.#worker, (name, value) => {
      if (name === "progress") {
        last = value;
        wait();
        onProgress(value);
      } else if (name === "batch") this.#streams.get(value.stream)?.take(value);
    });
    this.#worker.addEventListener("error", (event) => {
      this.#die(new RuntimeError(`The worker stopped${event.message ? `: ${event.message}` : " before it could say why"}. Press Try again to start a new one.`));
    });
    wait();
    const lock = `detok ${Math.random()}`;
    /**
     * What runs: versions of Python and detok_py. Rejects with a RuntimeError that says what to do.
     * @type {Promise<{python: string, detok: string}>}
     */
    this.ready = this.#calls.call("boot", { runtimeUrl: new URL(runtimeUrl, document.baseURI).href, lock }).then(
      (info) => {
        clearTimeout(waited);
        whenGone(lock, () => this.#die(new RuntimeError("The worker that decodes has ended. Press Try again to start a new one.")));
        return info;
      },
      (error) => {
        clearTimeout(waited);
        if (error instanceof RuntimeError) throw error;
        const failure = new RuntimeError(`Python could not be loaded: ${oneLine(error.message)} Check that the bridge is running, then press Try again.`);
        this.#die(failure);
        throw failure;
      },
    );
    // Whoever wants to know awaits `ready`; nobody has to.
    this.ready.catch(() => {});
  }

  /** @type {Worker} */
  #worker;
  /** @type {import("./messages.js").Calls} */
  #calls;
  /** @type {Map<number, EngineStream>} */
  #streams = new Map();
  /** @type {(error: Error) => void} */
  #onGone;
  #last = 0;
  /** @type {Error | undefined} */
  #dead;

  /**
   * Ask a bridge for an answer.
   * @param {string | URL} url  The bridge's WebSocket.
   * @param {StreamRequest} request
   * @returns {EngineStream}
   */
  open(url, request) {
    const id = ++this.#last;
    const stream = new EngineStream((name, ...args) => this.#calls.call(name, id, ...args), () => this.#streams.delete(id));
    this.#streams.set(id, stream);
    this.#calls.call("open", id, new URL(url, document.baseURI).href.replace(/^http/, "ws"), request).catch((error) => stream.fail(error));
    return stream;
  }

  /**
   * Decode a recorded stream again: a `.detok.jsonl`, a HAR file with a detok.v1 socket, or the body of server-sent events.
   * @param {string} text
   * @param {string | URL} [vocabularies]  Where the bridge has its vocabularies.
   * @returns {Promise<{header: Record<string, any>, rows: [seconds: number, row: TokenRow][], seconds: number, text: string}>}
   */
  readCapture(text, vocabularies = "/vocabulary/") {
    return this.#calls.call("captureRows", text, new URL(vocabularies, document.baseURI).href).catch(sayPlainly);
  }

  /**
   * Write a recorded stream as a `.detok.jsonl`.
   * @param {{header: object, rows: [seconds: number, id: number | null, hex: string][], seconds: number, end?: object}} recording
   * @returns {Promise<string>}
   */
  writeCapture(recording) {
    return this.#calls.call("captureText", recording).catch(sayPlainly);
  }

  /** Stop the worker. Streams that are still open fail. */
  close() {
    this.#die(new RuntimeError("The worker was closed."));
  }

  /** @param {Error} error */
  #die(error) {
    if (this.#dead) return;
    this.#dead = error;
    this.#worker.terminate();
    this.#calls.end(error);
    this.#onGone(error);
    for (const stream of [...this.#streams.values()]) stream.fail(error);
  }
}

/**
 * One answer. Events, each a CustomEvent with `detail`:
 * `hello` {engine, vocabulary} · `started` {id, data, position} · `tokens` {rows, at} · `retry` {seconds, code} · `notice` {code, message}
 * and, once, as the last, `finished` or `failed`.
 */
export class EngineStream extends EventTarget {
  /**
   * @param {(name: string, ...args: unknown[]) => Promise<any>} call
   * @param {() => void} onOver
   */
  constructor(call, onOver) {
    super();
    this.#call = call;
    this.#onOver = onOver;
    this.over = false;
  }

  /** @type {(name: string, ...args: unknown[]) => Promise<any>} */
  #call;
  /** @type {() => void} */
  #onOver;

  /** Ask the engine to stop. What it sent already still arrives, then `finished`. */
  cancel() {
    if (!this.over) this.#call("cancel").catch((error) => this.fail(error));
  }

  /** End now, whatever is still on its way. */
  giveUp() {
    if (!this.over) this.#call("giveUp").catch((error) => this.fail(error));
  }

  /**
   * Let the engine wait, or go on: the bridge gets no more credit while this is paused.
   * @param {boolean} paused
   */
  pause(paused) {
    if (!this.over) this.#call("pause", paused).catch(() => {});
  }

  /**
   * Hand out a batch of the worker. For `PythonWorker` only.
   * @param {Batch} batch
   */
  take({ at, events, retry }) {
    for (const event of events) this.#tell(event.type, { ...event, at });
    if (retry) this.#tell("retry", retry);
  }

  /**
   * End with an error of this side. For `PythonWorker` only.
   * @param {Error & {code?: number | string}} error
   */
  fail(error) {
    this.#tell("failed", { type: "failed", code: Number(error.code) || 1006, message: error.message, retry: true, position: 0, text: "", at: performance.timeOrigin + performance.now() });
  }

  /** @param {string} type @param {object} detail */
  #tell(type, detail) {
    if (this.over) return;
    if (type === "finished" || type === "failed") {
      this.over = true;
      this.#onOver();
    }
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** @param {number} bytes */
function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1);
}

/** Python's own sentence, without its traceback. @param {Error} error @returns {never} */
function sayPlainly(error) {
  error.message = oneLine(error.message).replace(/^[\w.]+: /, "");
  throw error;
}

/** One line of an error: the last of a Python traceback says what happened. @param {string} message */
function oneLine(message) {
  const lines = message.trim().split("\n").map((line) => line.trim());
  const said = (message.startsWith("Traceback") ? lines.at(-1) : lines.join(" ")) ?? "";
  return /[.!?]$/.test(said) ? said : `${said}.`;
}
