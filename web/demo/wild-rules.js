/**
 * Rules by which programs turn the tokens of a stream into text as they come, each found in a real
 * program, and how far each is from the exact text.
 *
 * In: the bytes of one token after another. Out: the text that a program with that rule shows, and
 * counts: characters that were lost, doubled, replaced by U+FFFD, or shown later than they could
 * have been. `decode` in the descriptions is that of a tokenizer with byte tokens: UTF-8 with
 * U+FFFD for what is not complete.
 */

/**
 * @typedef {object} WildRule
 * @property {string} id
 * @property {string} name  What the rule does.
 * @property {string} does  The same, in a sentence.
 * @property {string} link  Where it was found.
 * @property {string} where
 * @property {() => RuleState} start
 *
 * @typedef {object} RuleState
 * @property {(bytes: Uint8Array, exact: string) => string} push  The text that a token adds;
 *   `exact` is what the exact decoder adds.
 * @property {() => string} flush  The text that the end adds.
 * @property {() => number} waiting  How many whole characters wait.
 *
 * @typedef {{lost: number, doubled: number, broken: number, late: number}} Counts
 */

import { Utf8Reader } from "./utf8.js";

const newDecoder = () => new TextDecoder("utf-8", { ignoreBOM: true });
/** @param {Uint8Array} bytes */
const decode = (bytes) => newDecoder().decode(bytes);
/** @param {string} text */
const countCharacters = (text) => [...text].length;
/** @param {string} text */
const countReplacements = (text) => text.split("\ufffd").length - 1;

/** Tokens that wait, as bytes and as their decoded text. */
class Pending {
  #decoder = newDecoder();
  #reader = new Utf8Reader();
  /** The text of the whole characters. */
  text = "";

  /** @param {Uint8Array} bytes */
  push(bytes) {
    this.text += this.#decoder.decode(bytes, { stream: true });
    this.#reader.feed(bytes);
  }

  /** Whether the bytes end inside a character; the half decodes as U+FFFD. */
  get open() {
    return this.#reader.needed > 0;
  }

  /** Remove all that waits, and return its text. */
  take() {
    const text = this.text + this.#decoder.decode();
    this.text = "";
    this.#reader = new Utf8Reader();
    return text;
  }
}

/**
 * A rule that keeps tokens until all of them may be shown.
 * @param {object} may
 * @param {(bytes: Uint8Array) => boolean} [may.before]  Asked before a token is added.
 * @param {(pending: Pending) => boolean} [may.after]  Asked when it has been added.
 * @returns {RuleState}
 */
function untilReady({ before = () => false, after = () => false }) {
  const pending = new Pending();
  return {
    push(bytes) {
      const earlier = before(bytes) ? pending.take() : "";
      pending.push(bytes);
      return earlier + (after(pending) ? pending.take() : "");
    },
    flush: () => pending.take(),
    waiting: () => countCharacters(pending.text),
  };
}

/** How many characters exllamav3 holds at most. */
const MOST_HELD = 20;
const WINDOW = 4;

/** @returns {RuleState} */
function windowOfFour() {
  /** @type {Uint8Array[]} */
  let window = [];
  let waiting = 0;
  const join = (/** @type {Uint8Array[]} */ parts) =>
    decode(new Uint8Array(parts.flatMap((part) => [...part])));
  return {
    push(bytes, exact) {
      window = [...window, bytes].slice(-WINDOW);
      const text = join(window);
      if (text.endsWith("\ufffd")) {
        waiting += countCharacters(exact);
        return "";
      }
      waiting = 0;
      // By characters, as Python slices.
      return [...text].slice([...join(window.slice(0, -1))].length).join("");
    },
    flush: () => "",
    waiting: () => waiting,
  };
}

/** @returns {RuleState} */
function toLastSpace() {
  const decoder = newDecoder();
  const end = new Pending(); // only for whether the end is half a character
  let line = "";
  return {
    push(bytes) {
      line += decoder.decode(bytes, { stream: true });
      end.push(bytes);
      const last = end.open ? "\ufffd" : ([...line.slice(-2)].at(-1) ?? "");
      const cut = last === "\n" || isCjk(last) ? line.length : line.lastIndexOf(" ") + 1;
      const shown = line.slice(0, cut);
      line = line.slice(cut);
      return shown;
    },
    flush() {
      const rest = line + decoder.decode();
      line = "";
      return rest;
    },
    waiting: () => countCharacters(line),
  };
}

/** Whether transformers' TextStreamer takes a character for CJK. @param {string} letter */
function isCjk(letter) {
  return /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/u.test(
    letter,
  );
}

/** @returns {RuleState} */
function sliceByUnit() {
  let hidden = "";
  /** @param {number} units */
  const show = (units) => {
    const shown = hidden.slice(0, units);
    hidden = hidden.slice(units);
    return shown;
  };
  return {
    push(_, exact) {
      hidden += exact;
      return show(Math.ceil(hidden.length / 2)); // the animation is always behind the text
    },
    flush: () => show(hidden.length),
    waiting: () => countCharacters(hidden),
  };
}

/** @type {WildRule[]} */
export const WILD_RULES = [
  {
    id: "each-token",
    name: "decode each token",
    does: "decode([id]) for each token by itself. A character of several tokens becomes several �.",
    link: "https://github.com/tenstorrent/tt-inference-server/issues/2586",
    where: "tt-inference-server",
    start: () => ({ push: decode, flush: () => "", waiting: () => 0 }),
  },
  {
    id: "window-4",
    name: "window of 4 tokens",
    does: "Decode the last 4 tokens, and the same tokens without the newest; show what the first text has in addition. Nothing is shown while it ends with �. When a � becomes a character, the text is no longer than before, so that character is lost.",
    link: "https://paul.mou.dev/mini_sglang/L6-tokenizer.html",
    where: "a lesson that names this gap",
    start: windowOfFour,
  },
  {
    id: "ends-with",
    name: "ends with �, up to 20 characters",
    does: "Keep tokens while their text ends with �, but no more than 20 characters. A � that the model writes waits as if it were half a character.",
    link: "https://github.com/turboderp-org/exllamav3/issues/171",
    where: "exllamav3",
    start: () =>
      untilReady({
        after: ({ text, open }) =>
          !(open || text.endsWith("\ufffd")) || countCharacters(text) + Number(open) > MOST_HELD,
      }),
  },
  {
    id: "last-space",
    name: "hold to the last space",
    does: "Show up to the last space, or all if the last character is a line end or CJK. The word that is coming always waits.",
    link: "https://github.com/huggingface/transformers/pull/36708",
    where: "transformers, TextStreamer",
    start: toLastSpace,
  },
  {
    id: "flush-on-space",
    name: "flush on space",
    does: "Keep tokens until one begins with a space, then show those before it. Text without spaces waits until the end.",
    link: "https://github.com/Blaizzy/mlx-vlm/pull/1778",
    where: "mlx-vlm",
    start: () => untilReady({ before: (bytes) => bytes[0] === 0x20 }),
  },
  {
    id: "modulo-4",
    name: "show when � come in fours",
    does: "Keep tokens while the number of � in their text is not a multiple of 4, as if each � were a byte of an emoji. After one � that is text, everything waits.",
    link: "https://github.com/turboderp-org/exllamav2/issues/59",
    where: "exllamav2, which counts 1 to 4 of them",
    start: () =>
      untilReady({ after: ({ text, open }) => (countReplacements(text) + Number(open)) % 4 === 0 }),
  },
  {
    id: "slice",
    name: "slice(0, n): typing by UTF-16 unit",
    does: "The right text, shown as if it were typed: text.slice(0, n) counts UTF-16 units, so half of an emoji is shown, and then the other half.",
    link: "https://github.com/assistant-ui/assistant-ui/blob/main/packages/react/src/utils/smooth/useSmooth.ts",
    where: "assistant-ui, deep-chat",
    start: sliceByUnit,
  },
];

/** One rule on one stream, token by token. */
export class WildStream {
  /** @param {WildRule} rule */
  constructor(rule) {
    this.rule = rule;
    this.#state = rule.start();
  }

  #state;
  #exact = newDecoder();
  #end = new Pending();
  /** Whole characters that have come. */
  #come = 0;
  /** Those of them that were counted as late. */
  #countedLate = 0;
  /** The exact text and the rule's text since they were last compared. */
  #expected = "";
  #shown = "";
  /** How many U+FFFD the rule's text has since then beyond those of the exact text. */
  #replacements = 0;
  /** @type {Counts} */
  #counts = { lost: 0, doubled: 0, broken: 0, late: 0 };

  /** The text that a token adds. @param {Uint8Array} bytes */
  push(bytes) {
    const exact = this.#exact.decode(bytes, { stream: true });
    this.#end.push(bytes);
    this.#end.text = "";
    const text = this.#state.push(bytes, exact);
    this.#come += countCharacters(exact);
    const waiting = this.#state.waiting();
    const first = Math.max(this.#countedLate, this.#come - waiting);
    this.#counts.late += this.#come - first;
    if (waiting) this.#countedLate = this.#come;
    this.#expected += exact;
    this.#shown += text;
    this.#replacements += countReplacements(text) - countReplacements(exact);
    if (!waiting && !this.#end.open) this.#compare();
    return text;
  }

  /** The text that the end adds. */
  flush() {
    const text = this.#state.flush();
    this.#expected += this.#exact.decode();
    this.#shown += text;
    this.#compare();
    return text;
  }

  /** The counts so far. @returns {Counts} */
  get counts() {
    const { broken, ...others } = this.#counts;
    return { ...others, broken: broken + Math.max(0, this.#replacements) };
  }

  #compare() {
    const { lost, doubled, broken } = difference(this.#expected, this.#shown);
    this.#counts.lost += lost;
    this.#counts.doubled += doubled;
    this.#counts.broken += broken;
    this.#expected = this.#shown = "";
    this.#replacements = 0;
  }
}

/**
 * How a shown text differs from the expected one, in characters: by the longest common subsequence,
 * or, of long parts that differ, by how often each character occurs.
 * @param {string} expected
 * @param {string} shown
 */
export function difference(expected, shown) {
  if (expected === shown) return { lost: 0, doubled: 0, broken: 0 };
  const a = [...expected];
  const b = [...shown];
  let begin = 0;
  while (begin < a.length && a[begin] === b[begin]) begin++;
  let end = 0;
  while (end < a.length - begin && end < b.length - begin && a.at(-1 - end) === b.at(-1 - end))
    end++;
  const left = a.slice(begin, a.length - end);
  const right = b.slice(begin, b.length - end);
  const same =
    left.length * right.length > 4e6 ? commonCharacters(left, right) : common(left, right);
  const count = (/** @type {string[]} */ list) =>
    list.filter((letter) => letter === "\ufffd").length;
  const invented = right.length - same.length;
  const broken = Math.max(0, Math.min(invented, count(right) - count(same)));
  return { lost: left.length - same.length, doubled: invented - broken, broken };
}

/** The longest common subsequence. @param {string[]} a @param {string[]} b */
function common(a, b) {
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        a[i] === b[j]
          ? (lengths[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(lengths[(i + 1) * width + j] ?? 0, lengths[i * width + j + 1] ?? 0);
  const same = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) {
      same.push(a[i] ?? "");
      i++;
      j++;
    } else if ((lengths[(i + 1) * width + j] ?? 0) >= (lengths[i * width + j + 1] ?? 0)) i++;
    else j++;
  }
  return same;
}

/**
 * The characters that both have, as often as both have them.
 * @param {string[]} a
 * @param {string[]} b
 */
function commonCharacters(a, b) {
  /** @type {Map<string, number>} */
  const left = new Map();
  for (const letter of a) left.set(letter, (left.get(letter) ?? 0) + 1);
  return b.filter((letter) => {
    const count = left.get(letter) ?? 0;
    left.set(letter, count - 1);
    return count > 0;
  });
}
