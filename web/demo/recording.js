/**
 * A stream as a list of steps, in which the page can go forwards and backwards: its data, times,
 * and the text of each decoder. Nothing here paints.
 *
 * In: the library's rows, one for each token, chunk or byte. Out: a track of text for each pane,
 * the state of each byte, the faults. The text of the first pane and the waiting bytes come from
 * the library; the other panes use `TextDecoder`. The last step of a finished stream is its end: it
 * has no bytes, but the text that was still held.
 *
 * Steps are kept as columns: a stream of 200,000 tokens is a few arrays, not a million objects.
 */

import { Column } from "./column.js";
import { Utf8Reader } from "./utf8.js";

/** @typedef {import("../src/index.js").TokenRow} TokenRow */
/** @typedef {"held" | "naive" | "stream"} Pane */
/** @typedef {"complete" | "held" | "replaced" | "markup"} ByteState */
/**
 * @typedef {"token" | "chunk" | "byte"} Unit  What one step is: a chunk is text of unknown tokens.
 */

/**
 * @typedef {object} Step
 * @property {number} at  Milliseconds since the stream began.
 * @property {number | null} id  Null if the engine gave no id.
 * @property {number[] | null} ids  Of text that a server has decoded: the ids that came with it.
 * @property {Uint8Array} bytes
 * @property {Uint8Array} heldBytes  What waits after this step: the bytes of an unfinished
 *   character.
 * @property {string} heldText  What may be a stop string or a tag, after this step.
 * @property {string | null} special  The token's name if it is special and skipped.
 * @property {boolean} end
 * @property {number} [line]  The line of the file that it came from.
 * @property {number} event  Which event of the stream brought it, from 1.
 *
 * @typedef {"invalid" | "marked" | "written" | "cut" | "judged"} FaultKind  invalid: bytes that are
 *   not UTF-8 arrived. marked: the text that arrived has U+FFFD in it already. written: the bytes
 *   of U+FFFD arrived. cut: the stream ended inside a character. judged: `verdict` says what it is.
 *
 * @typedef {object} Fault
 * @property {number} step
 * @property {FaultKind} kind
 * @property {Verdict} [verdict]
 * @property {Verdict["places"][0]} [place]
 *
 * @typedef {import("../src/capture.js").Verdict} Verdict
 *
 * @typedef {{from: number, to: number, step: number, kind: "damage" | "doubt" | "written"}} Damage
 *   A U+FFFD that no decoder made: text that arrived broken, text of which nobody knows whether it
 *   is broken, or the bytes EF BF BD, which may be text; where it is, and with which step it came.
 * @typedef {{step: number, kind: "damage" | "written"} | undefined} Sign  Where a U+FFFD came from;
 *   undefined if a decoder made it.
 */

/** @type {Pane[]} */
export const PANES = ["held", "naive", "stream"];

/**
 * Of the places of a verdict, those that are not the rest of the one before: misread text that goes
 * on in the next row has a place in each, and the right text is in the first.
 * @param {Verdict["places"]} places
 */
export const begunPlaces = (places) => places.filter(({ right, end }) => right || !end);

const NO_BYTES = new Uint8Array(0);

/**
 * This many steps of a track are joined in advance, so that a jump does not join them one by one.
 */
const PAGE = 512;

/** The text of one pane, step by step. */
export class Track {
  /** @type {string[]} */
  pieces = [];
  /** The text of each `PAGE` steps that was requested. @type {string[]} */
  #pages = [];
  /** The length of the text after each step, in UTF-16 units. */
  ends = new Column();
  /** How many broken characters the text has after each step; a written U+FFFD does not count. */
  broken = new Column();
  /** How many of these nobody knows to be broken, after each step; empty if there are none. */
  doubts = new Column();

  /** In the order of the text. @type {Damage[]} */
  damage = [];

  /**
   * @param {string} text
   * @param {Sign[]} [arrived]  For each U+FFFD in it, where it came from.
   */
  add(text, arrived) {
    const begin = this.ends.last;
    const broken = countBroken(text);
    this.pieces.push(text);
    this.ends.push(begin + text.length);
    const written = broken && arrived ? this.#addDamage(text, begin, arrived) : 0;
    this.broken.push(this.broken.last + broken - written);
  }

  /** Add text without a U+FFFD. @param {string} text */
  addWhole(text) {
    this.pieces.push(text);
    this.ends.push(this.ends.last + text.length);
    this.broken.push(this.broken.last);
  }

  /** The text that the steps `from` up to `to` added. @param {number} from @param {number} to */
  text(from, to) {
    if (to - from === 1) return this.pieces[from] ?? "";
    if (to - from < 2 * PAGE) return this.pieces.slice(from, to).join("");
    const [first, last] = [Math.ceil(from / PAGE), Math.floor(to / PAGE)];
    let text = this.pieces.slice(from, first * PAGE).join("");
    for (let n = first; n < last; n++)
      text += this.#pages[n] ??= this.pieces.slice(n * PAGE, (n + 1) * PAGE).join("");
    return text + this.pieces.slice(last * PAGE, to).join("");
  }

  /** The damage in the text between two places. @param {number} from @param {number} to */
  damageIn(from, to) {
    const found = [];
    const first = firstIndex(this.damage.length, (n) => (this.damage[n]?.to ?? 0) > from);
    for (let n = first; n < this.damage.length; n++) {
      const one = /** @type {Damage} */ (this.damage[n]);
      if (one.from >= to) break;
      found.push(one);
    }
    return found;
  }

  /**
   * Add damage that is no U+FFFD.
   * @param {Damage} one
   * @param {number} characters  How many characters of the right text it broke.
   */
  markDamage(one, characters) {
    const index = firstIndex(this.damage.length, (n) => (this.damage[n]?.from ?? 0) >= one.from);
    this.damage.splice(index, 0, one);
    this.broken.increaseFrom(one.step, characters);
  }

  /**
   * Mark the U+FFFD of which nobody knows whether they are broken.
   * @param {(step: number) => boolean} isDoubted  Of the step with which one came.
   */
  doubt(isDoubted) {
    let [next, count] = [0, 0];
    for (let n = 0; n < this.ends.length; n++) {
      for (let one; (one = this.damage[next]) && one.from < this.ends.get(n); next++) {
        if (one.kind !== "damage" || !isDoubted(one.step)) continue;
        one.kind = "doubt";
        count += one.to - one.from;
      }
      this.doubts.push(count);
    }
  }

  /** The length of the text after `position` steps. @param {number} position */
  lengthAt(position) {
    return this.ends.get(position - 1);
  }

  /** @param {number} position */
  brokenAt(position) {
    return this.broken.get(position - 1) - this.doubts.get(position - 1);
  }

  /** @param {number} position */
  doubtsAt(position) {
    return this.doubts.get(position - 1);
  }

  /** The step that added the UTF-16 unit at `offset`. @param {number} offset */
  stepAt(offset) {
    return firstIndex(this.ends.length, (n) => this.ends.get(n) > offset);
  }

  /**
   * Note the damage in a text. Returns how many U+FFFD were written.
   * @param {string} text
   * @param {number} begin
   * @param {Sign[]} arrived
   */
  #addDamage(text, begin, arrived) {
    let written = 0;
    let at = -1;
    for (const sign of arrived) {
      at = text.indexOf("\ufffd", at + 1);
      if (at < 0) break;
      if (!sign) continue;
      const { step, kind } = sign;
      if (kind === "written") written++;
      const from = begin + at;
      const last = this.damage.at(-1);
      if (last?.step === step && last.kind === kind && last.to === from && from > begin) last.to++;
      else this.damage.push({ from, to: from + 1, step, kind });
    }
    return written;
  }
}

/**
 * The first of `length` numbers from 0 for which `holds`; `length` if there is none. A binary
 * search: `holds` must be true for all numbers after the first one.
 * @param {number} length
 * @param {(n: number) => boolean} holds
 */
export function firstIndex(length, holds) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** How many U+FFFD are in `text`. @param {string} text */
function countBroken(text) {
  let count = 0;
  for (let at = text.indexOf("\ufffd"); at >= 0; at = text.indexOf("\ufffd", at + 1)) count++;
  return count;
}

/**
 * The number of bytes of a text in UTF-8; NaN if it has a U+FFFD, which may stand for other bytes,
 * or a U+FEFF, which not every decoder shows.
 * @param {string} text
 */
function lengthInUtf8(text) {
  let length = 0;
  for (let n = 0; n < text.length; n++) {
    const unit = text.charCodeAt(n);
    if (unit === 0xfffd || unit === 0xfeff) return NaN;
    // Each half of a surrogate pair is two bytes of four.
    length += unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xf800) === 0xd800 ? 2 : 3;
  }
  return length;
}

/** A stream, step by step. */
export class Recording {
  /**
   * @param {number} [begun]  When the stream began, in milliseconds since 1970; without it, when
   *   its first token came.
   * @param {Unit} [unit]
   */
  constructor(begun, unit = "token") {
    this.begun = begun;
    /** @type {Unit} */
    this.unit = unit;
    this.ended = false;
    /** @type {Record<Pane, Track>} */
    this.tracks = { held: new Track(), naive: new Track(), stream: new Track() };
    /** In the order of their steps. @type {Fault[]} */
    this.faults = [];
    /**
     * Steps that end inside a character. They are no fault, but a decoder of single chunks breaks
     * the character.
     * @type {number[]}
     */
    this.splits = [];
    /** Who broke a recorded stream, in one sentence; "" if nothing has judged it. */
    this.verdict = "";
    /** @type {Verdict[]} */
    this.verdicts = [];
    /** The stop strings that the answer was asked for with. @type {string[]} */
    this.stop = [];
    /** Whether the times are those of the stream, and not of its playback only. */
    this.timed = true;
    /** The steps of seconds in which its times count, if too coarse for tokens; else 0. */
    this.steps = 0;
    /** What of its file could not be read, in one sentence; "" if there is nothing. */
    this.notRead = "";
  }

  /**
   * A time in seconds, as exact as the times are.
   * @param {number} at
   * @param {number} digits  Of times that are exact.
   */
  secondsOf(at, digits) {
    return (at / 1000).toFixed(this.steps ? Number(this.steps < 1) : digits);
  }

  /** What the times are, if they are coarse. */
  get clock() {
    const whole = { 1: "whole seconds", 60: "whole minutes" }[this.steps];
    return whole ?? `steps of ${this.steps} s`;
  }

  /** Whether every step so far has the id of its token. */
  hasAllIds = true;
  /** Decodes each step alone. */
  #fresh = new TextDecoder();
  /** The name of the format that the stream is read in; null if it is read in none. */
  format = /** @type {string | null} */ (null);
  /** The first step with bytes that became markup since this was set to Infinity. */
  marked = Infinity;
  /** Bytes that are markup of the format. @type {Set<number>} */
  #markup = new Set();
  /** The bytes whose text is not all known yet: where they begin, and the text that is known. */
  #run = { from: 0, step: 0, text: "" };
  #stream = new TextDecoder("utf-8", { ignoreBOM: true });
  #reader = new Utf8Reader();
  #ats = new Column(Float64Array);
  /** NaN if there is none. */
  #ids = new Column(Float64Array);
  /** @type {(number[] | null)[]} */
  #textIds = [];
  /** All bytes, and where those of each step end. */
  #data = new Uint8Array(1 << 12);
  #ends = new Column();
  /** How many bytes wait after each step: mostly the last ones that have come. */
  #held = new Column();
  /** The waiting bytes of steps where these are others. @type {Map<number, Uint8Array>} */
  #otherHeld = new Map();
  /** @type {Map<number, string>} */
  #heldText = new Map();
  /** @type {Map<number, string>} */
  #special = new Map();
  /** Of a file; 0 if it is none. */
  #lines = new Column();
  #events = new Column();
  /** The most bytes and characters that have waited up to each step. */
  #peakBytes = new Column();
  #peakText = new Column();
  /** Milliseconds that decoding each step took. @type {number[]} */
  #decoding = [];
  /** How the data of a step was damaged before it came here. @type {Map<number, string>} */
  #broken = new Map();
  /**
   * Parts of the first pane's text that are not content: reasoning and tool calls.
   * @type {{from: number, to: number, channel: string}[]}
   */
  channels = [];
  /** The steps from which on a server has sent another channel. @type {[number, string][]} */
  apart = [];
  /** Steps that are in `faults`. */
  #faulty = new Set();
  /** Each U+FFFD that has come and is not yet in the first pane's text. @type {Sign[]} */
  #signs = [];

  get length() {
    return this.#ats.length;
  }

  /**
   * Milliseconds since the stream began, of step `n`, or of the last one before it.
   * @param {number} n
   */
  timeOf(n) {
    return this.#ats.get(Math.min(n, this.length - 1));
  }

  /** How many tokens, chunks or bytes there are: all steps but the end. */
  get count() {
    return this.length - (this.ended ? 1 : 0);
  }

  /** @param {number} n @returns {Step} */
  step(n) {
    const id = this.#ids.get(n);
    if (!(n >= 0 && n < this.length))
      throw new RangeError(`There is no step ${n}: the recording has ${this.length}.`);
    return {
      at: this.#ats.get(n),
      id: Number.isNaN(id) ? null : id,
      ids: this.#textIds[n] ?? null,
      bytes: this.bytesOf(n),
      heldBytes: this.heldBytes(n + 1),
      heldText: this.heldText(n + 1),
      special: this.#special.get(n) ?? null,
      end: this.isEnd(n),
      line: this.#lines.get(n) || undefined,
      event: this.#events.get(n) || n + 1,
    };
  }

  /** @param {number} n */
  isEnd(n) {
    return this.ended && n === this.length - 1;
  }

  /** The bytes that came with step `n`. @param {number} n */
  bytesOf(n) {
    return this.#data.subarray(this.#ends.get(n - 1), this.#ends.get(n));
  }

  /**
   * The bytes of an unfinished character after `position` steps.
   * @param {number} position
   * @returns {Uint8Array}
   */
  heldBytes(position) {
    const other = this.#otherHeld.get(position - 1);
    if (other) return other;
    const end = this.#ends.get(position - 1);
    return this.#data.subarray(end - this.#held.get(position - 1), end);
  }

  /** The text that waits after `position` steps. @param {number} position */
  heldText(position) {
    return this.#heldText.get(position - 1) ?? "";
  }

  /**
   * How the data of step `n` was damaged before it came here, in a sentence; "" if it was not.
   * @param {number} n
   */
  damageOf(n) {
    return this.#broken.get(n) ?? "";
  }

  /** The names of the special tokens that were skipped, each once. */
  get specialNames() {
    return [...new Set(this.#special.values())];
  }

  /** Milliseconds that decoding step `n` took, 0 if it is not known. @param {number} n */
  decodingOf(n) {
    return this.#decoding[n] ?? 0;
  }

  /** The most that has waited within the first `position` steps. @param {number} position */
  peaks(position) {
    return {
      bytes: this.#peakBytes.get(position - 1),
      characters: this.#peakText.get(position - 1),
    };
  }

  /**
   * Add a token.
   * @param {TokenRow & {line?: number, event?: number, channel?: string, apart?: boolean,
   *   broken?: string, ids?: number[] | null}} row
   * @param {number} at  When it came, in milliseconds since 1970.
   * @param {number} [decoding]  Milliseconds that decoding it took.
   */
  add(row, at, decoding = 0) {
    const { id, bytes, text, heldBytes, heldText, special, line, event, channel, broken, ids } =
      row;
    this.begun ??= at;
    const n = this.length;
    this.#ids.push(id ?? NaN);
    if (id === null) this.hasAllIds = false;
    this.#textIds.push(ids ?? null);
    this.#append(bytes, at);
    if (special !== null) this.#special.set(n, special);
    this.#lines.push(line ?? 0);
    this.#events.push(event ?? n + 1);
    if (broken) this.#broken.set(n, broken);
    if (decoding) this.#decoding[n] = decoding;
    this.#hold(n, heldBytes, heldText);
    const sent = (row.apart && channel) || "content";
    if (sent !== (this.apart.at(-1)?.[1] ?? "content")) this.apart.push([n, sent]);
    if (this.format) this.#findMarkup(n, text, heldBytes.length + heldText.length);
    if (!broken && this.#isWhole(n, row)) {
      this.#reader.skip(bytes.length);
      for (const name of PANES) this.tracks[name].addWhole(text);
      if (channel && channel !== "content" && text) this.#addChannel(n, channel);
      return;
    }
    const begin = this.#reader.length;
    const { replaced, signs } = this.#reader.feed(bytes);
    const stream = this.#stream.decode(bytes, { stream: true });
    const naive = this.#fresh.decode(bytes);
    // The bytes of a U+FFFD can be a token that the model chose; in text they cannot.
    const marked = Boolean(broken || ids) || this.unit === "chunk";
    /** @type {Sign[]} */
    const steps = signs.map(({ at, genuine }) => ({
      step: this.#stepOfByte(at),
      kind: genuine && !marked ? "written" : "damage",
    }));
    this.#signs.push(...steps);
    this.tracks.held.add(text, this.#takeSigns(countBroken(text), row));
    if (channel && channel !== "content" && text) this.#addChannel(n, channel);
    this.tracks.stream.add(stream, steps);
    this.tracks.naive.add(
      naive === stream ? stream : naive,
      countBroken(naive) ? this.#naiveSigns(n, begin, marked) : undefined,
    );
    for (const position of replaced) this.#addFault(this.#stepOfByte(position), "invalid");
    if (broken || signs.some(({ genuine }) => genuine))
      this.#addFault(n, marked ? "marked" : "written");
    if (naive !== stream && countBroken(naive) > countBroken(stream)) this.splits.push(n);
  }

  /**
   * Whether a row is whole characters, and nothing was or is held: then all decoders show its text.
   * @param {number} n
   * @param {TokenRow} row
   */
  #isWhole(n, { bytes, text, heldBytes, heldText }) {
    if (heldBytes.length || heldText || this.#heldText.has(n - 1)) return false;
    if (this.#reader.needed || this.#signs.length) return false;
    return lengthInUtf8(text) === bytes.length;
  }

  /**
   * The stream is over.
   * @param {string} text  What was still held and is text now.
   * @param {number} at
   */
  end(text, at) {
    if (this.ended) return;
    const n = this.length;
    this.#ids.push(NaN);
    this.#append(NO_BYTES, at);
    this.#hold(n, NO_BYTES, "");
    this.ended = true;
    // A character that the end cuts off is the stream's fault, not damage on the way.
    this.#signs.push(undefined);
    this.tracks.held.add(text, this.#signs);
    this.tracks.naive.add("");
    this.tracks.stream.add(this.#stream.decode());
    for (const position of this.#reader.flush().replaced)
      this.#addFault(this.#stepOfByte(position), "cut");
  }

  /**
   * The state of byte `i` of step `n`. A byte that waited for a later token stays "held" when that
   * token has come.
   * @param {number} n
   * @param {number} i
   * @returns {ByteState}
   */
  stateOf(n, i) {
    const begin = this.#ends.get(n - 1);
    const size = this.#ends.get(n) - begin;
    if (this.#reader.replaced.has(begin + i)) return "replaced";
    if (this.#markup.has(begin + i)) return "markup";
    return i >= size - this.heldBytes(n + 1).length ? "held" : "complete";
  }

  /** Whether bytes of step `n` are markup. @param {number} n */
  hasMarkup(n) {
    if (!this.#markup.size) return false;
    return this.bytesOf(n).some((_, i) => this.stateOf(n, i) === "markup");
  }

  /**
   * When nothing waits any more, find the bytes of markup: those that are not in the text.
   * @param {number} n
   * @param {string} text
   * @param {number} waits
   */
  #findMarkup(n, text, waits) {
    const run = this.#run;
    run.text += text;
    if (waits) return;
    const to = this.#ends.get(n);
    const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(
      this.#data.subarray(run.from, to),
    );
    let same = 0;
    while (same < run.text.length && whole[same] === run.text[same]) same++;
    // If the text is not the two ends of the run, the format has rewritten it: nothing is known.
    if (whole !== run.text && whole.slice(same).endsWith(run.text.slice(same))) {
      const size = (/** @type {string} */ part) => new TextEncoder().encode(part).length;
      const end = to - size(run.text.slice(same));
      for (let at = run.from + size(whole.slice(0, same)); at < end; at++) this.#markup.add(at);
      this.marked = Math.min(this.marked, run.step);
    }
    this.#run = { from: to, step: n + 1, text: "" };
  }

  /** The index of the first fault in a step at or after `step`. @param {number} step */
  faultIndex(step) {
    return firstIndex(this.faults.length, (n) => (this.faults[n]?.step ?? 0) >= step);
  }

  /** The steps that "Next fault" visits: faults, or where there are none, splits. */
  get places() {
    return this.faults.length ? this.faults.map(({ step }) => step) : this.splits;
  }

  /**
   * Use the verdicts on a recorded stream instead of the faults that were found here. What nobody
   * broke is no fault.
   * @param {string} verdict
   * @param {Verdict[]} verdicts
   */
  judge(verdict, verdicts) {
    this.verdict = verdict;
    this.verdicts = verdicts;
    /** @type {Map<number, Fault>} */
    const faults = new Map();
    for (const one of verdicts) {
      if (one.who === "nobody") continue;
      for (const place of one.places) if (place.end) this.#markWrong(place);
      for (const place of begunPlaces(one.places)) {
        const { row: step } = place;
        if (!faults.has(step)) faults.set(step, { step, kind: "judged", verdict: one, place });
      }
    }
    this.faults = [...faults.values()].sort((a, b) => a.step - b.step);
    this.#faulty = new Set(faults.keys());
    this.#doubt(verdicts);
  }

  /** Mark what nobody knows to be broken. @param {Verdict[]} verdicts */
  #doubt(verdicts) {
    const doubts = verdicts.filter(({ less }) => less === "doubt");
    if (!doubts.length) return;
    const others = verdicts.filter((one) => !doubts.includes(one));
    const rowsOf = (/** @type {Verdict[]} */ some) =>
      new Set(some.flatMap(({ places }) => places.map(({ row }) => row)));
    const [known, doubted] = [rowsOf(others), rowsOf(doubts)];
    // Of very many places, a verdict lists the first ones.
    const rest = others.every(({ count, places }) => count <= places.length);
    for (const name of PANES)
      this.tracks[name].doubt((step) => !known.has(step) && (rest || doubted.has(step)));
  }

  /** Mark text that is wrong but has no U+FFFD. @param {Verdict["places"][0]} place */
  #markWrong({ row: step, begin, end, right }) {
    const { held } = this.tracks;
    // Its U+FFFD are counted already. Of a run of several rows, the first has the right text.
    const characters = [...right].length - countBroken(right);
    for (const name of PANES) {
      const track = this.tracks[name];
      if (track.pieces[step] !== held.pieces[step]) continue;
      const at = track.lengthAt(step);
      track.markDamage({ from: at + begin, to: at + end, step, kind: "damage" }, characters);
    }
  }

  /** @param {Uint8Array} bytes @param {number} at */
  #append(bytes, at) {
    const begin = this.#ends.last;
    const end = begin + bytes.length;
    if (end > this.#data.length) {
      const larger = new Uint8Array(Math.max(end, 2 * this.#data.length));
      larger.set(this.#data);
      this.#data = larger;
    }
    this.#data.set(bytes, begin);
    this.#ends.push(end);
    // Frames that waited for the vocabulary come after later ones, with their earlier times.
    this.#ats.push(Math.max(this.#ats.last, at - (this.begun ?? at)));
  }

  /** @param {number} n @param {Uint8Array} bytes @param {string} text */
  #hold(n, bytes, text) {
    this.#held.push(bytes.length);
    const end = this.#ends.get(n);
    if (!bytes.every((byte, i) => byte === this.#data[end - bytes.length + i]))
      this.#otherHeld.set(n, bytes);
    if (text) this.#heldText.set(n, text);
    this.#peakBytes.push(Math.max(this.#peakBytes.last, bytes.length));
    const characters = text ? [...text].length : 0;
    this.#peakText.push(Math.max(this.#peakText.last, characters));
  }

  /**
   * The parts of a pane's text between two places that are not plain content, in their order:
   * reasoning and tool calls in the first pane, and what arrived broken in all of them.
   * @param {Pane} pane
   * @param {number} from
   * @param {number} to
   * @returns {{from: number, to: number, kind: string, step?: number}[]}
   */
  partsIn(pane, from, to) {
    const damage = this.tracks[pane].damageIn(from, to);
    const { channels } = this;
    const first = firstIndex(channels.length, (n) => (channels[n]?.to ?? 0) > from);
    if (pane !== "held" || first === channels.length) return damage;
    const parts = [];
    let next = 0;
    for (const channel of channels.slice(first)) {
      if (channel.from >= to) break;
      let at = channel.from;
      for (; (damage[next]?.to ?? Infinity) <= channel.to; next++) {
        const one = /** @type {Damage} */ (damage[next]);
        if (one.from > at) parts.push({ from: at, to: one.from, kind: channel.channel });
        parts.push(one);
        at = Math.max(at, one.to);
      }
      if (at < channel.to) parts.push({ from: at, to: channel.to, kind: channel.channel });
    }
    return [...parts, ...damage.slice(next)];
  }

  /** @param {number} n @param {string} channel */
  #addChannel(n, channel) {
    const from = this.tracks.held.lengthAt(n);
    const to = this.tracks.held.lengthAt(n + 1);
    const last = this.channels.at(-1);
    if (last?.to === from && last.channel === channel) last.to = to;
    else this.channels.push({ from, to, channel });
  }

  /**
   * Where the next `count` U+FFFD of the first pane came from. Its decoder can make more of them
   * than there are signs, one for each byte; the others get the last sign.
   * @param {number} count
   * @param {{heldBytes: Uint8Array, heldText: string}} row
   */
  #takeSigns(count, { heldBytes, heldText }) {
    const taken = this.#signs.splice(0, count);
    if (taken.length) while (taken.length < count) taken.push(taken.at(-1));
    if (!heldBytes.length && !heldText) this.#signs = [];
    return taken;
  }

  /**
   * Where each U+FFFD came from when step `n` is decoded alone; undefined if that decoder made it.
   * @param {number} n
   * @param {number} begin  Where the step's bytes begin.
   * @param {boolean} marked
   * @returns {Sign[]}
   */
  #naiveSigns(n, begin, marked) {
    const alone = new Utf8Reader();
    const { signs } = alone.feed(this.bytesOf(n));
    /** @type {Sign[]} */
    const steps = signs.map(({ at, genuine }) => {
      if (genuine) return { step: n, kind: marked ? "damage" : "written" };
      return this.#reader.replaced.has(begin + at) ? { step: n, kind: "damage" } : undefined;
    });
    return [...steps, ...alone.flush().signs.map(() => undefined)];
  }

  /** @param {number} position */
  #stepOfByte(position) {
    let n = this.#ends.length - 1;
    while (n > 0 && this.#ends.get(n - 1) > position) n--;
    return n;
  }

  /** @param {number} step @param {FaultKind} kind */
  #addFault(step, kind) {
    if (this.#faulty.has(step)) return;
    this.#faulty.add(step);
    this.faults.splice(this.faultIndex(step), 0, { step, kind });
  }
}

/** @param {number} byte */
export function toHex(byte) {
  return byte.toString(16).toUpperCase().padStart(2, "0");
}

/** @param {Uint8Array} bytes @param {number} [most]  Bytes to write; the others are counted. */
export function hexOf(bytes, most = 24) {
  const shown = Array.from(bytes.subarray(0, most), toHex).join(" ");
  return bytes.length > most ? `${shown} … ${bytes.length - most} more` : shown;
}
