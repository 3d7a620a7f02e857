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
 * Deltas as they are shown, of whole graphemes if wanted. A change of channel ends a grapheme, and
 * arguments of a call are shown as they come. Calls are put together in `calls`.
 * @param {import("./detok-stream.js").TextOptions["granularity"]} granularity
 * @param {import("./detok-stream.js").Call[]} calls
 * @returns {(deltas: import("./step-table.js").Said[], over: boolean) =>
 *   import("./detok-stream.js").Delta[]}
 */
export function shaper(granularity, calls) {
  const whole = granularity === "grapheme" ? graphemes() : undefined;
  let last = "content";
  return (deltas, over) => {
    /** @type {any[]} */
    const out = [];
    const end = () => out.push({ channel: last, text: whole?.flush() });
    for (const [channel, text, more] of deltas) {
      if (channel !== last) end();
      last = channel;
      const call = more && "call" in more ? more : undefined;
      // A whole JSON value ends a grapheme too.
      const shown =
        whole && !call ? whole.feed(text) + (more?.complete ? whole.flush() : "") : text;
      out.push({ channel, text: shown, ...more });
      if (call) {
        const before = calls[call.call] ?? { id: null, name: "", arguments: "", complete: false };
        calls[call.call] = { ...before, ...call, arguments: before.arguments + text };
      }
    }
    if (over) end();
    return out.filter((delta) => delta.text || "call" in delta || delta.complete);
  };
}
