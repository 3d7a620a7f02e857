/**
 * Make invisible characters visible: by a common sign if there is one, else by their Unicode name.
 */

/** @type {Record<string, string>} */
const SIGNS = { " ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍" };

/**
 * Names as in the Unicode Character Database, of the characters that text of models has.
 * @type {Record<number, string>}
 */
const NAMES = {
  0x0000: "NULL",
  0x0007: "BELL",
  0x0008: "BACKSPACE",
  0x000c: "FORM FEED",
  0x001b: "ESCAPE",
  0x007f: "DELETE",
  0x0085: "NEXT LINE",
  0x00a0: "NO-BREAK SPACE",
  0x00ad: "SOFT HYPHEN",
  0x034f: "COMBINING GRAPHEME JOINER",
  0x061c: "ARABIC LETTER MARK",
  0x115f: "HANGUL CHOSEONG FILLER",
  0x1160: "HANGUL JUNGSEONG FILLER",
  0x1680: "OGHAM SPACE MARK",
  0x180e: "MONGOLIAN VOWEL SEPARATOR",
  0x2000: "EN QUAD",
  0x2001: "EM QUAD",
  0x2002: "EN SPACE",
  0x2003: "EM SPACE",
  0x2004: "THREE-PER-EM SPACE",
  0x2005: "FOUR-PER-EM SPACE",
  0x2006: "SIX-PER-EM SPACE",
  0x2007: "FIGURE SPACE",
  0x2008: "PUNCTUATION SPACE",
  0x2009: "THIN SPACE",
  0x200a: "HAIR SPACE",
  0x200b: "ZERO WIDTH SPACE",
  0x200c: "ZERO WIDTH NON-JOINER",
  0x200d: "ZERO WIDTH JOINER",
  0x200e: "LEFT-TO-RIGHT MARK",
  0x200f: "RIGHT-TO-LEFT MARK",
  0x2028: "LINE SEPARATOR",
  0x2029: "PARAGRAPH SEPARATOR",
  0x202a: "LEFT-TO-RIGHT EMBEDDING",
  0x202b: "RIGHT-TO-LEFT EMBEDDING",
  0x202c: "POP DIRECTIONAL FORMATTING",
  0x202d: "LEFT-TO-RIGHT OVERRIDE",
  0x202e: "RIGHT-TO-LEFT OVERRIDE",
  0x202f: "NARROW NO-BREAK SPACE",
  0x205f: "MEDIUM MATHEMATICAL SPACE",
  0x2060: "WORD JOINER",
  0x2061: "FUNCTION APPLICATION",
  0x2062: "INVISIBLE TIMES",
  0x2063: "INVISIBLE SEPARATOR",
  0x2064: "INVISIBLE PLUS",
  0x2066: "LEFT-TO-RIGHT ISOLATE",
  0x2067: "RIGHT-TO-LEFT ISOLATE",
  0x2068: "FIRST STRONG ISOLATE",
  0x2069: "POP DIRECTIONAL ISOLATE",
  0x2800: "BRAILLE PATTERN BLANK",
  0x3000: "IDEOGRAPHIC SPACE",
  0x3164: "HANGUL FILLER",
  0xfeff: "ZERO WIDTH NO-BREAK SPACE",
  0xffa0: "HALFWIDTH HANGUL FILLER",
  0xfffd: "REPLACEMENT CHARACTER",
  0xe0001: "LANGUAGE TAG",
  0xe007f: "CANCEL TAG",
};
/**
 * Invisible letters and marks that no Unicode property covers: joiners, fillers, Braille's blank.
 */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Z}\p{Variation_Selector}\u034f\u115f\u1160\u2800\u3164\uffa0]/gu;

/** Text with its invisible characters made visible. @param {string} text */
export function visible(text) {
  return text.replace(UNSEEN, (one) => SIGNS[one] ?? codePoint(one));
}

/**
 * Text to quote: C1 controls, which no text has by intention, are made visible.
 * @param {string} text
 */
export function quotable(text) {
  return text.replace(/[\x80-\x9f]/g, codePoint);
}

/**
 * The names of the invisible characters in a text, and of U+FFFD, each once.
 * @param {string} text
 */
export function namesOf(text) {
  const found = [...new Set(text)].filter((one) => one.match(UNSEEN) ?? one === "\ufffd");
  return found.filter((one) => !SIGNS[one]).map((one) => nameOf(one));
}

/** "U+200D ZERO WIDTH JOINER". @param {string} one */
function nameOf(one) {
  const code = one.codePointAt(0) ?? 0;
  const tag = code >= 0xe0020 && code < 0xe007f;
  const variation = code >= 0xe0100 ? code - 0xe0100 + 17 : code - 0xfe00 + 1;
  const name = tag
    ? `TAG ${String.fromCharCode(code - 0xe0000)}`
    : /\p{Variation_Selector}/u.test(one) && variation > 0
      ? `VARIATION SELECTOR-${variation}`
      : NAMES[code];
  return [`U+${hex(code)}`, name].filter(Boolean).join(" ");
}

/** @param {string} one */
function codePoint(one) {
  return `‹${hex(one.codePointAt(0) ?? 0)}›`;
}

/** @param {number} code */
function hex(code) {
  return code.toString(16).toUpperCase().padStart(4, "0");
}
