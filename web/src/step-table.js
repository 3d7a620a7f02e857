/**
 * The steps of a stream in the page's own thread: (state, symbol) → deltas and the next state.
 *
 * A symbol is a token id, a piece of text, half a character, or null for the end. Python alone
 * knows what a step does. Of most tokens it says so beforehand (detok_py/page/passing.py): what
 * text each id is, and what text passes a state. For any other step it is asked once, in the
 * worker, and what it says is kept here for every stream with the same options. A state goes with
 * the question, so the worker holds nothing of a stream, and a new worker can answer for one that
 * has died (detok_py/page/steps.py).
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
 * @typedef {[json: string, takesTokens: boolean, held: string, passing: Passing | null,
 *   text: string, channel: string]} CrossedState
 * @typedef {[blocked: string, lead: string, then: CrossedState | null]} Passing  What text passes.
 * @typedef {[lengths: number, bytes: number, long: Record<string, number>]} Place  In the packed
 *   file: the length of each token, the bytes, and the lengths that are too long for the first.
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
  /**
   * A text is the content of a token that leaves the state as it is.
   * @type {Map<Sym, Step | string>}
   */
  steps = new Map();
  /** Whether steps were asked for ahead. */
  isAhead = false;

  /** This state with other bytes held, by these in hex. @type {Map<string, State>} */
  others = new Map();

  /** @param {CrossedState} crossed @param {StepTable} [table] */
  constructor([json, takesTokens, held, passing, text, channel], table) {
    this.table = table;
    this.json = json;
    this.takesTokens = takesTokens;
    /** The beginning of a character, in hex. */
    this.held = held;
    this.passing = passing;
    /** The characters that have steps of their own; undefined if all have. */
    this.blocked = passing?.[0];
    /** Where other characters lead, if not back here. */
    this.then = passing?.[2] && table?.state(passing[2]);
    /** What text of the content leaves the state as it is. */
    this.free =
      this.blocked !== undefined && !this.then && channel === "content"
        ? new RegExp(`^[^${this.blocked.replace(/[\\\]^-]/g, "\\$&")}]*$`, "u")
        : undefined;
    this.text = text;
    this.channel = channel;
    this.others.set(held, this);
  }

  /** The same state with other bytes held. @param {string} held @returns {State} */
  holding(held) {
    let other = this.others.get(held);
    if (!other) {
      other = Object.assign(Object.create(State.prototype), this, { held, steps: new Map() });
      this.others.set(held, /** @type {State} */ (other));
    }
    return /** @type {State} */ (other);
  }
}

/** Longer pieces of text hardly come again, */
const LONGEST_TEXT = 32;
/** and neither do states that hold much. */
const LONGEST_STATE = 1 << 13;
/** States whose steps by blocked characters are asked for ahead. */
const STATES_AHEAD = 1 << 8;
/** Texts of tokens that Python gives at a time. */
const TOKENS_A_CALL = 1 << 8;
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

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** The text of bytes, and the bytes at the end that begin a character. @param {Uint8Array} bytes */
export function decode(bytes) {
  const text = utf8.decode(bytes, { stream: true });
  const isHalf = Number(bytes.at(-1)) > 0x7f && utf8.decode();
  const half = isHalf ? bytes.slice(bytes.findLastIndex((byte) => byte > 0xbf)) : [];
  return /** @type {[string, number[]]} */ ([text, [...half]]);
}

/**
 * The text of a token behind the bytes that a state holds, and the bytes that are held then;
 * undefined if Python is asked.
 * @param {State} state
 * @param {number} id
 * @returns {[text: string, held: string] | undefined}
 */
function textOf({ held, table, takesTokens }, id) {
  let token = takesTokens ? table?.token(id) : undefined;
  if (token === undefined) return undefined;
  if (typeof token === "string") {
    if (!held) return [token, held];
    token = new TextEncoder().encode(token);
  }
  const before = held.match(/../g) ?? [];
  const all = held
    ? Uint8Array.from([...before.map((pair) => parseInt(pair, 16)), ...token])
    : token;
  const [text, half] = decode(all);
  return table?.options.fatal && text.includes("\ufffd")
    ? undefined
    : [text, half.map((byte) => byte.toString(16)).join("")];
}

/**
 * The step from a state by a symbol, if it is known, or was said beforehand; a text where the state
 * stays.
 * @param {State} state
 * @param {Sym} symbol
 * @returns {Step | string | undefined}
 */
export function look(state, symbol) {
  const known = state.steps.get(symbol);
  if (known !== undefined || state.blocked === undefined || symbol === null) return known;
  const isId = typeof symbol === "number";
  // Of half a character beside no vocabulary, the bytes wait in the decoder.
  const half = isId && !state.table?.vocabulary;
  const found = half ? ["", ""] : isId ? textOf(state, symbol) : [symbol, state.held];
  if (!found || ((half || found[1]) && state.text)) return undefined;
  const [text = "", held = ""] = found;
  const keep = (/** @type {Step | string} */ step) => {
    if (isId && !half) state.table?.keep(state, symbol, step);
    return step;
  };
  if (!held && !state.held && state.free?.test(text)) return keep(text);
  /** @type {Said[]} */
  const deltas = [];
  const say = (/** @type {Said} */ [channel, text, call]) => {
    const last = deltas.at(-1);
    if (last?.[0] === channel && !last[2] && !call) last[1] += text;
    else deltas.push(call ? [channel, text, call] : [channel, text]);
  };
  let next = state.holding("");
  /** @type {Reason} */
  let reason = null;
  for (const part of text) {
    if (next.blocked?.includes(part) === false) {
      say([next.channel, next.passing?.[1] + part]);
      next = next.then ?? next;
    } else {
      const step = next.steps.get(part);
      if (typeof step !== "object") return undefined;
      step.deltas.forEach(say);
      next = step.next;
      if ((reason = step.reason)) break;
    }
  }
  return held && next.text ? undefined : keep(makeStep(deltas, reason, next.holding(held)));
}

/** The same as a step. @param {State} state @param {Sym} symbol */
export function find(state, symbol) {
  const found = look(state, symbol);
  return typeof found !== "string"
    ? found
    : makeStep(found ? [["content", found]] : [], null, state);
}

/** The state of a stream in which nothing is searched for: all text passes it. */
export const plain = new State(["plain", false, "", ["", "", null], "", "content"]);
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
    /** What each token is, where tokens are not bytes. @type {(string | number | null)[]} */
    this.texts = [];
    /** Ids that are asked for, as ranges. @type {[first: number, last: number][]} */
    this.always = [];
    /** Where each token ends there. @type {number[] | Uint32Array} */
    this.ends = [];
    /** How many more states are asked for ahead. */
    this.left = STATES_AHEAD;
    /** Where the bytes of tokens are in the packed file. @type {Place | null | undefined} */
    this.place = undefined;
    this.begun = this.ask("begin_steps", told).then(([state, place, always = []]) => {
      [this.place, this.always] = [place, always];
      this.start = this.state(state);
      void this.ahead(this.start).catch(() => {});
      if (place) this.findTokens(place);
      else if (place === null) void this.readTexts().catch(() => {});
      return this.start;
    });
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

  /** Find where each token ends. @param {Place} place */
  findTokens([lengths, at, long]) {
    const { bytes, size } = /** @type {import("./vocabulary.js").Vocabulary} */ (this.vocabulary);
    this.ends = new Uint32Array(size);
    for (let id = 0; id < size; id++) this.ends[id] = at += long[id] ?? Number(bytes[lengths + id]);
  }

  /** Ask what each token is. */
  async readTexts() {
    for (let at = 0; at < Number(this.vocabulary?.size); at += TOKENS_A_CALL)
      this.texts.push(...(await this.ask("tokens_of", this.told, at, at + TOKENS_A_CALL)));
  }

  /**
   * What a token is, in the default state: a text, or bytes; undefined if Python is asked.
   * @param {number} id
   */
  token(id) {
    for (const [first, last] of this.always) if (first <= id && id <= last) return undefined;
    if (!this.place) {
      const found = this.texts[id] ?? undefined;
      return typeof found === "number" ? Uint8Array.of(found) : found;
    }
    const end = this.ends[id];
    return end
      ? this.vocabulary?.bytes.subarray(this.ends[id - 1] ?? this.place[1], end)
      : undefined;
  }

  /** @param {CrossedState} crossed */
  state(crossed) {
    const [json, , held] = crossed;
    let state = this.states.get(json);
    if (!state) {
      state = new State(crossed, this);
      if (json.length < LONGEST_STATE) this.states.set(json, state);
    }
    return state.holding(held);
  }

  /** @param {State} state @param {Sym} symbol @param {CrossedStep} said */
  note(state, symbol, said) {
    const error = typeof said === "string" ? said : "";
    const [deltas, reason, next] = typeof said === "string" ? [[], null] : said;
    const step = makeStep(deltas, reason, next ? this.state(next) : state, error);
    if (String(symbol).length <= LONGEST_TEXT && step.next.json.length < LONGEST_STATE)
      this.keep(state, symbol, step);
    return step;
  }

  /** @param {State} state @param {Sym} symbol @param {Step | string} step */
  keep(state, symbol, step) {
    if (++this.count > StepTable.most) {
      // Streams keep the states that they are in, and new ones begin in the first.
      for (const { others } of this.states.values())
        for (const each of others.values()) each.steps.clear();
      this.states.clear();
      if (this.start) this.states.set(this.start.json, this.start);
      this.count = 1;
    }
    state.steps.set(symbol, step);
  }

  /**
   * The steps from a state by symbols, one after another, up to the end of the text.
   * @param {State} state
   * @param {Sym[]} symbols
   * @returns {Promise<Step[]>}
   */
  async walk(state, symbols) {
    /** @type {CrossedStep[]} */
    const said = await this.ask("walk", this.told, ...crossing(state), JSON.stringify(symbols));
    return said.map((each, n) => {
      const step = this.note(state, /** @type {Sym} */ (symbols[n]), each);
      state = step.next;
      if (!step.reason) void this.ahead(state).catch(() => {});
      return step;
    });
  }

  /**
   * Ask ahead for the end and for the steps by blocked characters, one question at a time, and so
   * on from the states that they lead to.
   * @param {State} state
   */
  async ahead(state) {
    if (state.isAhead || state.held || this.left-- < 1) return;
    state.isAhead = true;
    const symbols = [...(state.blocked ?? ""), null];
    /** @type {CrossedStep[]} */
    const said = await this.ask("fan", this.told, ...crossing(state), JSON.stringify(symbols));
    const steps = said.map((each, n) => this.note(state, symbols[n] ?? null, each));
    for (const { next } of [{ next: state.then }, ...steps]) if (next) await this.ahead(next);
  }
}

/** A state as it crosses to Python. @param {State} state @returns {[string, string]} */
export const crossing = ({ json, takesTokens, held }) => [json, takesTokens ? held : ""];

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
