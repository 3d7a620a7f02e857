/**
 * The reader's own text, cut and streamed in this page instead of by a bridge: with a tokenizer
 * that was dropped, or on a static site. Its events are those of the library's Answer; the cutting
 * is Python's (detok_py/captures/cut.py).
 */

import { DetokError, asDetokError, decoderWorker } from "../src/decoder.js";
import { loadCaptures } from "../src/on-demand.js";
import { rowOf } from "../src/rows.js";
import { runtimeOptions } from "./runtime.js";
import { tokenizerInUse } from "./own-tokenizer.js";

/** How many rows go to the page in one task. */
const MOST_ROWS = 256;

const now = () => performance.timeOrigin + performance.now();

/** A text that is being streamed. */
export class LocalAnswer extends EventTarget {
  /** @param {any} request  What the bridge's scripted engine would be asked for. */
  constructor(request) {
    super();
    this.#play(request).catch((error) => this.#end("error", { error: asDetokError(error) }));
  }

  #over = false;
  #tokens = 0;
  /** The text that is held so far, or at the end. */
  #rest = "";
  /** @type {(() => void) | undefined} */
  #wake;

  /** Drop the rest: the answer ends now. */
  cancel = () => this.#end("cancelled");
  stop = this.cancel;

  /** @param {any} request */
  async #play({ params, stop, reasoning, singleBytes }) {
    await null; // the page adds its listeners first
    const worker = decoderWorker(runtimeOptions());
    const byToken = params.cut === "token";
    const tokenizer = byToken ? await tokenizerInUse() : undefined;
    const [ids] = await Promise.all([
      tokenizer?.encode(params.text), // at once: another tokenizer may be chosen meanwhile
      worker.keep(tokenizer?.vocabulary),
      loadCaptures(worker),
    ]);
    const { sha256, size } = tokenizer?.vocabulary ?? {};
    const asked = JSON.stringify({ ...params, stop, reasoning, singleBytes, ids, sha256 });
    /**
     * @type
     *   {{rows: [number, import("../src/rows.js").CrossedRow][], more: number,
     *   deltas: [string, string][], end: any, format: string | null}}
     */
    const { rows, deltas, end, format, ...first } = await worker.ask("cut_rows", asked);
    for (let more = first.more; more;) {
      const part = await worker.ask("more_rows", more);
      for (const row of part.rows) rows.push(row);
      more = part.more;
    }
    const fidelity = byToken ? "ids" : "bytes";
    const engine = { name: "your text", model: tokenizer?.name, device: "this page", fidelity };
    this.#emit("hello", { engine, vocabulary: sha256 ? { sha256, size } : null, format });
    this.#emit("start", { id: "", data: fidelity, position: 0, format });
    const begun = performance.now();
    for (let at = 0; at < rows.length && !this.#over;) {
      const seconds = (performance.now() - begun) / 1000;
      /** @type {import("../src/rows.js").TokenRow[]} */
      const due = [];
      while (at + due.length < rows.length && due.length < MOST_ROWS) {
        const [when, row] = /** @type {(typeof rows)[0]} */ (rows[at + due.length]);
        if (when > seconds) break;
        due.push(rowOf(row));
      }
      at += due.length;
      this.#tokens = at;
      const last = due.at(-1);
      if (last) this.#rest = last.heldText + (last.heldBytes.length ? "\ufffd" : "");
      if (due.length) this.#emit("token", { rows: due, count: due.length, tokens: at });
      const wait = (rows[at]?.[0] ?? 0) - (performance.now() - begun) / 1000;
      await this.#sleep(Math.max(0, wait) * 1000);
    }
    this.#rest = deltas.map(([, text]) => text).join("");
    if (end.type === "error") {
      this.#end("error", { error: new DetokError(end.message, { code: end.code }) });
    } else this.#end(end.reason);
  }

  /** @param {number} milliseconds @returns {Promise<void>} */
  #sleep(milliseconds) {
    return new Promise((resolve) => {
      this.#wake = resolve;
      setTimeout(resolve, milliseconds);
    });
  }

  /** @param {string} reason @param {{error?: DetokError}} [more] */
  #end(reason, more = {}) {
    if (this.#over) return;
    this.#over = true;
    this.#wake?.();
    const tokens = this.#tokens;
    this.#emit("finish", { reason, tokens, text: this.#rest, note: null, ...more });
  }

  /** @param {string} type @param {object} detail */
  #emit(type, detail) {
    if (this.#over && type !== "finish") return;
    this.dispatchEvent(new CustomEvent(type, { detail: { ...detail, at: now() } }));
  }
}
