/**
 * The steps of a stream in the page's own thread: (state, symbol) → deltas and the next state.
 *
 * A symbol is a token id, a piece of text, half a character, or null for the end. Python alone
 * knows what a step does: it is asked once for each, in the worker, and what it says is kept here
 * for every stream with the same options. A state goes with the question, so the worker holds
 * nothing of a stream, and a new worker can answer for one that has died (detok_py/page/steps.py).
 */

import { asIds } from "./chunks.js";
import { decoderWorker } from "./decoder.js";

/**
 * @typedef {import("./detok-stream.js").TextOptions & import("./detok-stream.js").StreamOptions &
 *   import("./decoder.js").RuntimeOptions} Options  All that a decoder takes.
 * @typedef {number | string | null} Sym  A symbol.
 * @typedef {[channel: string, text: string, call?: CallDelta]} Said  A delta, as Python gives it.
 * @typedef {Pick<import("./detok-stream.js").Delta, "name" | "id" | "complete"> & {call: number}}
 *   CallDelta
 * @typedef {[json: string, triggers: string | null, bytes: number, text: string, channel: string]}
 *   CrossedState
 * @typedef {string | [deltas: Said[], reason: Reason, next: CrossedState | null]} CrossedStep
 * @typedef {"end" | "stop" | "eos" | "tool_calls" | null} Reason  Why a text has ended; null
 *   before.
 *
 * @typedef {object} Step
 * @property {Said[]} deltas
 * @property {string} [text]  That of the content, if the step is nothing else.
 * @property {Reason} reason  Why the text ends with this step.
 * @property {State} next
 * @property {string} error  Why the symbol is refused, "" if it isn't.
 */

/** A state of a stream, and the steps from it that are known. */
export class State {
  /** @param {CrossedState} crossed */
  constructor([json, triggers, bytes, text, channel]) {
    this.json = json;
    /** Text without one of these passes unchanged. @type {RegExp | undefined} */
    this.triggers = triggers === null ? undefined : new RegExp(`[${triggers}]`, "u");
    this.held = { bytes, text };
    this.channel = channel;
    /** @type {Map<Sym, Step>} */
    this.steps = new Map();
    /** How many steps had to be asked for. */
    this.asked = 0;
  }
}

/** Longer pieces of text hardly come again, */
const LONGEST_TEXT = 32;
/** and neither do states that hold much. */
const LONGEST_STATE = 1 << 13;
/** A state in which nothing is held is asked for the ids below this, the most common ones, */
const COMMON_IDS = 1 << 11;
/** so few at a time that a step which somebody waits for does not wait long. */
const IDS_A_CALL = 32;
const TRIES = 4;

/** The text of the content. @param {Said[]} deltas */
export const contentOf = (deltas) =>
  deltas.map(([channel, text]) => (channel === "content" ? text : "")).join("");

/**
 * @param {Said[]} deltas
 * @param {Reason} reason
 * @param {State} next
 * @param {string} [error]
 * @returns {Step}
 */
const makeStep = (deltas, reason, next, error = "") => ({
  deltas,
  text: error || reason || deltas.some((said) => said[2]) ? undefined : contentOf(deltas),
  reason,
  next,
  error,
});

/**
 * The symbol of the bytes that a TextDecoder holds, a number below 0: they say what text can come
 * next, so text that waits may be certain with them.
 * @param {number[]} bytes
 */
export const halfSymbol = (bytes) => -bytes.reduce((number, byte) => number * 256 + byte, 0);

/** The step from a state by a symbol, if it is known. @param {State} state @param {Sym} symbol */
export function find(state, symbol) {
  const step = state.steps.get(symbol);
  if (step || !state.triggers || symbol === null) return step;
  if (typeof symbol === "number") return makeStep([], null, state); // nothing waits for the bytes
  return state.triggers.test(symbol) ? undefined : makeStep([[state.channel, symbol]], null, state);
}

/** The state of a stream in which nothing is searched for: all text passes it. */
export const plain = new State(["plain", "", 0, "", "content"]);
plain.steps.set(null, makeStep([], "end", plain));

/** What streams with the same options share. */
export class StepTable {
  /** Steps that a table keeps; then it begins anew. */
  static most = 1 << 18;

  /**
   * @param {Options} options
   * @param {string} told  The options as Python takes them, JSON.
   */
  constructor(options, told) {
    this.options = options;
    this.vocabulary = options.vocabulary;
    this.told = told;
    /** @type {Map<string, State>} */
    this.states = new Map();
    this.count = 0;
    this.begun = this.ask("begin_steps", told).then((state) => (this.start = this.state(state)));
    this.begun.catch(() => {});
  }

  /** The state that a stream begins in, once it is known. @type {State | undefined} */
  start;

  /**
   * Ask Python. A worker that dies meanwhile is replaced, as a question needs nothing of what it
   * knew.
   * @param {string} name
   * @param {unknown[]} args
   * @returns {Promise<any>}
   */
  async ask(name, ...args) {
    for (let left = TRIES; ; left--) {
      const worker = decoderWorker(this.options);
      try {
        await worker.keep(this.vocabulary);
        return await worker.ask(name, ...args);
      } catch (error) {
        if (!worker.dead?.isRetryable || !worker.booted || left === 1) throw error;
      }
    }
  }

  /** @param {CrossedState} crossed */
  state(crossed) {
    const [json] = crossed;
    const state = this.states.get(json) ?? new State(crossed);
    if (json.length < LONGEST_STATE) this.states.set(json, state);
    return state;
  }

  /** @param {State} state @param {Sym} symbol @param {CrossedStep} said */
  note(state, symbol, said) {
    const error = typeof said === "string" ? said : "";
    const [deltas, reason, next] = typeof said === "string" ? [[], null] : said;
    const step = makeStep(deltas, reason, next ? this.state(next) : state, error);
    if (String(symbol).length > LONGEST_TEXT || step.next.json.length >= LONGEST_STATE) return step;
    if (++this.count > StepTable.most) {
      // Streams keep the states that they are in, and new ones begin in the first.
      for (const each of this.states.values()) each.steps.clear();
      this.states.clear();
      if (this.start) this.states.set(this.start.json, this.start);
      this.count = 1;
    }
    state.steps.set(symbol, step);
    return step;
  }

  /**
   * The steps from a state by symbols, one after another, up to the end of the text.
   * @param {State} state
   * @param {Sym[]} symbols
   * @returns {Promise<Step[]>}
   */
  async walk(state, symbols) {
    const { bytes, text } = state.held;
    if (++state.asked === 2 && !bytes && !text) void this.warm(state).catch(() => {});
    /** @type {CrossedStep[]} */
    const said = await this.ask("walk", this.told, state.json, JSON.stringify(symbols));
    return said.map((each, n) => {
      const step = this.note(state, /** @type {Sym} */ (symbols[n]), each);
      state = step.next;
      return step;
    });
  }

  /** Ask for the steps by the most common ids. @param {State} state */
  async warm(state) {
    const most = Math.min(COMMON_IDS, this.vocabulary?.size ?? 0);
    for (let first = 0; first < most; first += IDS_A_CALL) {
      /** @type {(CrossedStep | null)[]} */
      const said = await this.ask("fan", this.told, state.json, first, first + IDS_A_CALL);
      said.forEach((each, n) => {
        if (each === null || state.steps.has(first + n)) return;
        const deltas = /** @type {Said[]} */ (each ? [[state.channel, each]] : []);
        this.note(state, first + n, typeof each === "string" ? [deltas, null, null] : each);
      });
    }
  }
}

/** The tables, by the runtime and the options. @type {Map<string, StepTable>} */
const tables = new Map();
const MOST_TABLES = 32;

/**
 * The table of streams with these options; undefined if text passes them as it is.
 * @param {Options} options
 */
export function stepTable(options) {
  const { vocabulary, promptIds, stop, reasoning, tools, trimArtifacts, format } = options;
  const reads = reasoning || tools || trimArtifacts || (format ?? "auto") !== "auto";
  if (!vocabulary && !stop?.length && !reads) return undefined;
  const told = JSON.stringify({
    ...options,
    signal: 0, // this and the next two are nothing to Python
    granularity: 0,
    output: 0,
    vocabulary: vocabulary?.sha256,
    promptIds: promptIds && asIds(promptIds),
  });
  let table = tables.get(told);
  if (!table) {
    if (tables.size >= MOST_TABLES) tables.clear();
    tables.set(told, (table = new StepTable(options, told)));
    // What failed is tried again by the next stream.
    table.begun.catch(() => tables.delete(told));
  }
  return table;
}
