/**
 * @typedef {object} Graphemes  Joins code points to what a reader sees as characters.
 * @property {(text: string) => string} feed  Takes text, and returns what is whole.
 * @property {() => string} flush  Ends the text, and returns what was held.
 */

/**
 * Text to whole user-perceived characters (UAX #29). In: text of whole code points, cut anywhere.
 * Held: the last grapheme cluster, as the next character may extend it.
 * @returns {Graphemes}
 */
export function graphemes() {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
  let held = "";
  return {
    feed(text) {
      if (!text) return "";
      const whole = held + text;
      let last = 0;
      for (const { index } of segmenter.segment(whole)) last = index;
      held = whole.slice(last);
      return whole.slice(0, last);
    },
    flush() {
      const rest = held;
      held = "";
      return rest;
    },
  };
}

/**
 * Deltas as they are shown, of whole graphemes if wanted. A change of channel ends a grapheme.
 * @param {import("./detok-stream.js").TextOptions["granularity"]} granularity
 * @returns {(deltas: [string, string][], over: boolean) => import("./detok-stream.js").Delta[]}
 */
export function shaper(granularity) {
  const whole = granularity === "grapheme" ? graphemes() : undefined;
  let channel = "content";
  return (deltas, over) => {
    /** @type {[string, string][]} */
    const out = [];
    for (const [its, text] of deltas) {
      if (whole && its !== channel) out.push([channel, whole.flush()]);
      channel = its;
      out.push([its, whole ? whole.feed(text) : text]);
    }
    if (over && whole) out.push([channel, whole.flush()]);
    return /** @type {import("./detok-stream.js").Delta[]} */ (
      out.filter(([, text]) => text).map(([its, text]) => ({ channel: its, text }))
    );
  };
}
