/**
 * The steps of a stream in the page's own thread: (state, symbol) → deltas and the next state.
 *
 * A symbol is a token id, a piece of text, half a character, or null for the end. Only Python knows
 * what a step does. For most tokens it says so beforehand (detok_py/page/passing.py): the text of
 * each id, and the characters that a state shows unchanged. For any other step the page asks the
 * worker once, and keeps the reply for all streams with the same options. Each question contains
 * its state, so the worker holds nothing of a stream, and a new worker can answer for one that has
 * died (detok_py/page/steps.py).
 */

import { asIds } from "./chunks.js";
import { decoderWorker } from "./decoder.js";

/**
 * @typedef {import("./detok-stream.js").StreamOptions &
 *   import("./decoder.js").RuntimeOptions} Options  All that a decoder takes.
 * @typedef {number | string | null} Sym  A symbol.
 * @typedef {[channel: string, text: string, call?: CallDelta]} Said  A delta, as Python gives it.
 * @typedef {Pick<import("./detok-stream.js").Delta, "name" | "id" | "complete"> & {call: number}}
 *   CallDelta
 * @typedef {[json: string, takesTokens: boolean, held: string, passing: Passing | null,
 *   text: string, channel: string]} CrossedState
 * @typedef {[blocked: string, lead: string, then: CrossedState | null]} Passing  What text passes.
 * @typedef {[lengths: number, bytes: number, long: Record<string, number>]} Place  Offsets in the
 *   packed file: of the tokens' lengths, one byte each, and of their bytes; and by id the lengths
 *   that do not fit in a byte.
 * @typedef {string | [deltas: Said[], reason: Reason, next: CrossedState | null]} CrossedStep
 * @typedef {"end" | "stop" | "eos" | "tool_calls" | null} Reason  Why a text has ended; null
 *   before.
 *
 * @typedef {object} Step
 * @property {Said[]} deltas
 * @property {string} [text]  The content, if the step gives nothing else.
 * @property {Reason} reason  Why the text ends with this step.
 * @property {State} next
 * @property {string} error  Why the symbol is refused, "" if it isn't.
 */

/** A state of a stream, and the steps from it that are known. */
export class State {
  /**
   * A string is the content of a token that leaves the state as it is.
   * @type {Map<Sym, Step | string>}
   */
  steps = new Map();
  /** Whether steps were asked for ahead. */
  isAhead = false;

  /** This state with other held bytes, by these bytes in hex. @type {Map<string, State>} */
  others = new Map();

  /** @param {CrossedState} crossed @param {StepTable} [table] */
  constructor([json, takesTokens, held, passing, text, channel], table) {
    this.table = table;
    this.json = json;
    this.takesTokens = takesTokens;
    /** The beginning of a character, in hex. */
    this.held = held;
    const [blocked, lead = "", then] = passing ?? [];
    /** The characters that have steps of their own; undefined if all have. */
    this.blocked = blocked;
    /** What other characters are shown after. */
    this.lead = lead;
    /** The state after other characters, if not this one. */
    this.then = then && table?.state(then);
    /** Matches content that leaves the state as it is. */
    this.free =
      blocked !== undefined && !then && channel === "content"
        ? new RegExp(`^[^${blocked.replace(/[\\\]^-]/g, "\\$&")}]*$`, "u")
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

/** Steps by longer texts are not kept: such texts hardly come again. */
const LONGEST_TEXT = 32;
/** Longer states are not kept either. */
const LONGEST_STATE = 1 << 13;
/** For how many states the steps by blocked characters are asked ahead. */
const STATES_AHEAD = 1 << 6;
/** How many tokens' texts Python gives in one call. */
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
 * The symbol of the bytes that a TextDecoder holds, a negative number. They limit what text can
 * come next, so they may make held text certain.
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
 * The text of a token after the bytes that a state holds, and the bytes held afterwards; undefined
 * if Python must be asked.
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
 * The step from a state by a symbol; undefined if Python must be asked. A string is content that
 * leaves the state as it is.
 * @param {State} state
 * @param {Sym} symbol
 * @returns {Step | string | undefined}
 */
export function find(state, symbol) {
  const known = state.steps.get(symbol);
  if (known !== undefined || state.blocked === undefined || symbol === null) return known;
  const isId = typeof symbol === "number";
  // Without a vocabulary, the decoder holds the bytes of half a character.
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
      say([next.channel, next.lead + part]);
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

/** The state of a stream without stop strings, tags or a format: it shows all text unchanged. */
export const plain = new State(["plain", false, "", ["", "", null], "", "content"]);
plain.steps.set(null, makeStep([], "end", plain));

/** What streams with the same options share. */
export class StepTable {
  /** How many steps a table keeps before it drops them all. */
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
    /** Each token's text or byte, if `place` is null. @type {(string | number | null)[]} */
    this.texts = [];
    /** Ranges of ids for which Python is always asked. @type {[first: number, last: number][]} */
    this.always = [];
    /** Where each token ends in the packed file. @type {number[] | Uint32Array} */
    this.ends = [];
    /** For how many more states steps are asked ahead. */
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
   * Ask Python. If the worker dies meanwhile, ask the next one: a question contains all it needs.
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

  /** Ask for the text or the byte of each token. */
  async readTexts() {
    for (let at = 0; at < Number(this.vocabulary?.size); at += TOKENS_A_CALL)
      this.texts.push(...(await this.ask("tokens_of", this.told, at, at + TOKENS_A_CALL)));
  }

  /**
   * A token's text or bytes in the default state; undefined if Python must be asked.
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
    const [deltas, reason, next, error] = typeof said === "string" ? [[], null, null, said] : said;
    const step = makeStep(deltas, reason, next ? this.state(next) : state, error);
    if (String(symbol).length <= LONGEST_TEXT && step.next.json.length < LONGEST_STATE)
      this.keep(state, symbol, step);
    return step;
  }

  /** @param {State} state @param {Sym} symbol @param {Step | string} step */
  keep(state, symbol, step) {
    if (++this.count > StepTable.most) {
      // Streams keep their current states, and new streams begin in the first state.
      for (const { others } of this.states.values())
        for (const each of others.values()) each.steps.clear();
      this.states.clear();
      if (this.start) this.states.set(this.start.json, this.start);
      this.count = 1;
    }
    state.steps.set(symbol, step);
  }

  /**
   * Ask for the steps from a state by symbols, one after another, up to the end of the text.
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
   * Ask ahead for the steps by blocked characters and by the end, then for those from the states
   * that they lead to, the nearest first, one question at a time.
   * @param {State} first
   */
  async ahead(first) {
    const states = [first];
    for (const state of states) {
      if (state.isAhead || state.held || this.left < 1) continue;
      this.left--;
      state.isAhead = true;
      const symbols = [...(state.blocked ?? ""), null];
      /** @type {CrossedStep[]} */
      const said = await this.ask("fan", this.told, ...crossing(state), JSON.stringify(symbols));
      if (state.then) states.push(state.then);
      for (const [n, each] of said.entries())
        states.push(this.note(state, symbols[n] ?? null, each).next);
    }
  }
}

/** A state as Python takes it. @param {State} state @returns {[string, string]} */
export const crossing = ({ json, takesTokens, held }) => [json, takesTokens ? held : ""];

/** The tables, by the runtime and the options. @type {Map<string, StepTable>} */
const tables = new Map();
const MOST_TABLES = 32;

/**
 * The table of streams with these options; undefined if they show all text unchanged.
 * @param {Options} options
 */
export function stepTable(options) {
  const { vocabulary, promptIds, stop, reasoning, tools, trimArtifacts, format } = options;
  const reads = reasoning || tools || trimArtifacts || (format ?? "auto") !== "auto";
  if (!vocabulary && !stop?.length && !reads) return undefined;
  const told = JSON.stringify({
    ...options,
    signal: 0, // Python does not use this and the next two
    granularity: 0,
    output: 0,
    vocabulary: vocabulary?.sha256,
    promptIds: promptIds && asIds(promptIds),
  });
  let table = tables.get(told);
  if (!table) {
    if (tables.size >= MOST_TABLES) tables.clear();
    tables.set(told, (table = new StepTable(options, told)));
    // After a failure the next stream tries again.
    table.begun.catch(() => tables.delete(told));
  }
  return table;
}
