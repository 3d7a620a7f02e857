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

/** @typedef {(string | undefined)[]} Texts  By id, the content of tokens that change no state. */

/** A state of a stream, and the steps from it that are known, but for those of `texts`. */
export class State {
  /** @type {Map<Sym, Step>} */
  steps = new Map();
  /** Whether steps were asked for ahead. */
  isAhead = false;

  /**
   * @param {CrossedState} crossed
   * @param {StepTable} [table]
   * @param {Map<string, State>} [others]  This state with other held bytes, by these in hex.
   * @param {string} [held]
   */
  constructor(crossed, table, others = new Map(), held = crossed[2]) {
    const [json, takesTokens, , passing, text, channel] = crossed;
    this.crossed = crossed;
    this.others = others.set(held, this);
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
    /** Those that content must not have to leave the state as it is. */
    this.letters =
      blocked !== undefined && !then && channel === "content" ? [...blocked] : undefined;
    /** @type {Texts} */
    this.texts =
      this.letters && takesTokens && !held && table?.vocabulary
        ? table.textsOf(/** @type {string} */ (blocked))
        : [];
    this.text = text;
    this.channel = channel;
  }

  /** The same state with other bytes held. @param {string} held @returns {State} */
  holding(held) {
    const { crossed, table, others } = this;
    return others.get(held) ?? new State(crossed, table, others, held);
  }
}

/** Steps by longer texts are not kept: such texts hardly come again. */
const LONGEST_TEXT = 32;
/** Longer states are not kept either. */
const LONGEST_STATE = 1 << 13;
/** How many tokens' texts Python gives in one call. */
const TOKENS_A_CALL = 1 << 8;

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

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** Bytes from hex. @param {string} hex */
export const fromHex = (hex) =>
  Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/**
 * The text of bytes, and in hex those at the end that begin a character.
 * @param {Uint8Array} bytes
 * @returns {[text: string, half: string]}
 */
export function decode(bytes) {
  const whole = utf8.decode(bytes);
  if (!whole.endsWith("\ufffd")) return [whole, ""];
  const text = utf8.decode(bytes, { stream: true });
  const half = utf8.decode() ? bytes.slice(bytes.findLastIndex((byte) => byte > 0xbf)) : [];
  return [text, Array.from(half, (byte) => byte.toString(16)).join("")];
}

/**
 * The step from a state by a symbol; undefined if Python must be asked. A string is content that
 * leaves the state as it is.
 * @param {State} state
 * @param {Sym} symbol
 * @returns {Step | string | undefined}
 */
export function find(state, symbol) {
  const { letters, table, texts } = state;
  const isId = typeof symbol === "number";
  const known = (isId ? texts[symbol] : undefined) ?? state.steps.get(symbol);
  if (known !== undefined || state.blocked === undefined || symbol === null) return known;
  let text = /** @type {string} */ (symbol);
  let { held } = state;
  // Without a vocabulary, the decoder holds the bytes of half a character.
  const isToken = isId && table?.vocabulary;
  const isHalf = isId && !isToken;
  if (isHalf) text = held = "";
  else if (isToken) {
    const token = state.takesTokens ? table?.token(symbol) : undefined;
    if (token === undefined) return undefined;
    if (!held && typeof token === "string") text = token;
    else {
      const after = typeof token === "string" ? new TextEncoder().encode(token) : token;
      [text, held] = decode(held ? Uint8Array.of(...fromHex(held), ...after) : after);
      if (table?.options.fatal && text.includes("\ufffd")) return undefined;
    }
  }
  if ((isHalf || held) && state.text) return undefined;
  // Not a regular expression, which the first token of a page would wait for to be compiled.
  if (!held && !state.held && letters?.every((letter) => !text.includes(letter))) {
    if (isToken) texts[symbol] = text;
    return text;
  }
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
      // Where no text passes, only Python knows which deltas are one.
      const step = next.blocked && next.steps.get(part);
      if (!step) return undefined;
      step.deltas.forEach(say);
      next = step.next;
      if ((reason = step.reason)) break;
    }
  }
  if (held && next.text) return undefined;
  const step = makeStep(deltas, reason, next.holding(held));
  if (isToken) table?.keep(state, symbol, step);
  return step;
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
    this.begun = this.ask("begin_steps", told).then(([state, place, always = []]) => {
      this.#isAsked = new Uint8Array(Number(this.vocabulary?.size) || 0);
      for (const [first, last] of always) this.#isAsked.fill(1, first, last + 1);
      this.start = this.state(state);
      void this.ahead(this.start).catch(() => {});
      if (place) this.#findTokens(place);
      else if (place === null) void this.readTexts().catch(() => {});
      return this.start;
    });
    setTimeout(() => this.start.json || this.#tryTokens());
    this.begun.catch(() => {});
  }

  /** The state that a stream begins in. Its `json` is empty until that is known. */
  start = new State(["", false, "", null, "", "content"]);

  #count = 0;
  /** For how many more states the steps by blocked characters are asked ahead. */
  #left = 1 << 6;
  /** The texts of states, by their blocked characters. @type {Record<string, Texts>} */
  #free = {};
  /** By id, 1 if Python is always asked. */
  #isAsked = new Uint8Array();
  /**
   * Where each token begins in the packed file, and the last one ends, if tokens are bytes.
   * @type {number[] | Uint32Array}
   */
  #starts = [];
  /** Each token's text or byte, if tokens are not bytes. @type {(string | number | null)[]} */
  #texts = [];

  /**
   * Ask Python. If the worker dies meanwhile, ask the next one: a question contains all it needs.
   * @param {string} name
   * @param {unknown[]} args
   * @returns {Promise<any>}
   */
  async ask(name, ...args) {
    for (let left = 4; ; left--) {
      const worker = decoderWorker(this.options);
      try {
        await worker.keep(this.vocabulary);
        return await worker.ask(name, ...args);
      } catch (error) {
        if (!worker.dead?.isRetryable || !worker.booted || left === 1) throw error;
      }
    }
  }

  /**
   * Take the file's first bytes for tokens while Python finds how a stream begins: a browser
   * compiles what has run.
   */
  #tryTokens() {
    let state = new State(["", true, "", ["", "", null], "", "content"], this);
    this.#starts = [...new Array(1 << 10).keys()];
    for (const id of this.#starts) {
      const step = find(state, id);
      if (typeof step === "object") state = step.next;
    }
    this.#free = {};
    this.#starts = [];
  }

  /** Find where each token begins. @param {Place} place */
  #findTokens([lengths, at, long]) {
    const { bytes, size } = /** @type {import("./vocabulary.js").Vocabulary} */ (this.vocabulary);
    this.#starts = new Uint32Array(size + 1);
    for (let id = 0; id <= size; id++) {
      this.#starts[id] = at;
      at += long[id] ?? /** @type {number} */ (bytes[lengths + id]);
    }
  }

  /** Ask for the text or the byte of each token. */
  async readTexts() {
    for (let at = 0; at < Number(this.vocabulary?.size); at += TOKENS_A_CALL)
      this.#texts.push(...(await this.ask("tokens_of", this.told, at, at + TOKENS_A_CALL)));
  }

  /**
   * A token's text or bytes in the default state; undefined if Python must be asked.
   * @param {number} id
   */
  token(id) {
    if (this.#isAsked[id]) return undefined;
    const end = this.#starts[id + 1];
    if (end && id >= 0) return this.vocabulary?.bytes.subarray(this.#starts[id], end);
    const found = this.#texts[id] ?? undefined;
    return typeof found === "number" ? Uint8Array.of(found) : found;
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

  /** The texts of all states with these blocked characters. @param {string} blocked */
  textsOf(blocked) {
    // An array with all its elements is the quickest.
    return (this.#free[blocked] ??= new Array(this.vocabulary?.size).fill(undefined));
  }

  /** @param {State} state @param {Sym} symbol @param {Step} step */
  keep(state, symbol, step) {
    if (++this.#count > StepTable.most) {
      // Streams keep their current states, and new streams begin in the first state, made anew.
      state.others.forEach(({ steps }) => steps.clear());
      this.states.clear();
      this.start = this.state(this.start.crossed);
      this.#count = 1;
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
      if (state.isAhead || state.held || this.#left < 1) continue;
      this.#left--;
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
    // JSON has no signal and no functions: the table outlives those of its first stream.
    tables.set(told, (table = new StepTable({ ...JSON.parse(told), vocabulary }, told)));
    // After a failure the next stream tries again.
    table.begun.catch(() => tables.delete(told));
  }
  return table;
}
