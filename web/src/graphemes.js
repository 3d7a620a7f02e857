/**
 * Text to whole user-perceived characters (UAX #29). In: text of whole code points, cut anywhere.
 * Held: the last grapheme cluster, as the next character may extend it.
 */
export function graphemes() {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
  let held = "";
  return {
    /** @param {string} text */
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
