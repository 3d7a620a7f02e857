/**
 * Finds each U+FFFD in a rule's text that the rule did not make: it arrived broken, or the model
 * wrote it.
 *
 * In: the steps of a recording, and the rule's text for each. Out: parts of the rule's text. A
 * U+FFFD of the rule is that of the stream if it stands after the same character; a rule may lose
 * some, and make others itself.
 */

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./recording.js").Damage} Damage */

/** The parts of one rule's text. */
export class WildMarks {
  /**
   * Each U+FFFD of the stream that the rule has not shown yet, and the character before it.
   * @type {{before: string, part: Damage}[]}
   */
  #waiting = [];
  #length = 0;
  #last = "";

  /**
   * The parts of the text that a step added.
   * @param {Recording} recording
   * @param {number} n
   * @param {string} text
   * @returns {Damage[]}
   */
  push({ tracks: { stream } }, n, text) {
    const begin = stream.lengthAt(n);
    const exact = stream.text(n, n + 1);
    const arrived = exact ? stream.damageIn(begin, begin + exact.length) : [];
    for (const part of arrived)
      for (let at = part.from; at < part.to; at++)
        if (exact[at - begin] === "\ufffd")
          this.#waiting.push({ before: characterBefore(stream, begin, exact, at), part });
    const own = this.#length;
    const parts = text.includes("\ufffd") ? this.#marksIn(text) : [];
    // Damage without a U+FFFD: text that arrived wrong.
    if (text === exact)
      for (const { from, to, step, kind } of arrived)
        if (exact[from - begin] !== "\ufffd")
          parts.push({ from: own + from - begin, to: own + to - begin, step, kind });
    this.#length += text.length;
    this.#last = text.at(-1) ?? this.#last;
    return parts;
  }

  /** @param {string} text */
  #marksIn(text) {
    /** @type {Damage[]} */
    const parts = [];
    for (let at = text.indexOf("\ufffd"); at >= 0; at = text.indexOf("\ufffd", at + 1)) {
      const before = text[at - 1] ?? this.#last;
      const found = this.#waiting.findIndex((one) => one.before === before);
      const one = this.#waiting[found];
      if (!one) continue;
      this.#waiting.splice(0, found + 1);
      const { step, kind } = one.part;
      const from = this.#length + at;
      const last = parts.at(-1);
      if (last?.to === from && last.step === step && last.kind === kind) last.to++;
      else parts.push({ from, to: from + 1, step, kind });
    }
    return parts;
  }
}

/**
 * @param {import("./recording.js").Track} track
 * @param {number} begin
 * @param {string} text
 * @param {number} at
 */
function characterBefore(track, begin, text, at) {
  if (at > begin) return text[at - begin - 1] ?? "";
  const step = at > 0 ? track.stepAt(at - 1) : -1;
  return step < 0 ? "" : (track.text(step, step + 1).at(-1) ?? "");
}
