/**
 * Takes lines out of a large file that are alike but for a text: Python then has a small file, and
 * their texts (detok_py/captures/fold.py).
 *
 * In: a file, and a function that finds the shapes of lines. Out: what is left of the file, and as
 * JSON what was taken out. Nothing is parsed here: Python says which lines are alike. Lines that
 * are few or that need care stay: texts with escapes of codes, with U+FFFD, or that are not UTF-8.
 */

const SLICE = 1 << 20;
/** So many lines are left at the beginning, by which Python knows what the file is. */
const FIRST_LINES = 32;
/** After so many lines of no known shape, Python is asked for others. */
const UNKNOWN_LINES = 64;
const MOST_SHAPES = 16;
const [LEAST_EVENTS, MOST_EVENTS] = [8, 1024];
/** The most lines from an event to the next one. */
const MOST_APART = 3;
/** More names in an `id` than this are not those of answers that are mixed. */
const MOST_ANSWERS = 8;
const [LF, CR, QUOTE, COLON, BACKSLASH] = [10, 13, 0x22, 0x3a, 0x5c];

/**
 * @typedef {[parts: string[], kinds: string[]]} Shape  What lines have in common, and what is
 *   between: "text", "string", "number" or "count".
 * @typedef {{parts: Uint8Array[], kinds: string[], number: number, id: number}} Known
 * @typedef {{left: Blob, taken: string}} Folded
 */

/**
 * Returns undefined if the file must be read whole.
 * @param {Blob} file
 * @param {(part: Uint8Array) => Promise<Shape[]>} find
 * @returns {Promise<Folded | undefined>}
 */
export async function fold(file, find) {
  const folding = new Folding(find);
  for (let at = 0; at < file.size; at += SLICE) {
    const part = await file.slice(at, at + SLICE).arrayBuffer();
    if (!(await folding.feed(new Uint8Array(part)))) return undefined;
  }
  return folding.end();
}

class Folding {
  /** The unfinished lines of the last part. */
  #held = new Uint8Array(0);
  /** What is left, and the number of its lines. @type {BlobPart[]} */
  #left = [];
  #lines = 0;
  /** @type {Known[]} */
  #shapes = [];
  /** @type {Shape[]} */
  #found = [];
  /** The shape of the last run. */
  #last = 0;
  /** @type {string[]} */
  #runs = [];
  #texts = new Texts();
  #ids = new Ids();
  /** How many lines have no known shape since the last run, and after how many Python is asked. */
  #unknown = 0;
  #due = FIRST_LINES;

  /** @param {(part: Uint8Array) => Promise<Shape[]>} find */
  constructor(find) {
    this.find = find;
  }

  /** Returns whether the file can be folded. @param {Uint8Array<ArrayBuffer>} part */
  async feed(part) {
    const bytes = new Uint8Array(this.#held.length + part.length);
    bytes.set(this.#held);
    bytes.set(part, this.#held.length);
    let [begin, at] = [0, 0]; // of the lines that are left; of the next line
    while (at < bytes.length) {
      const next = this.#lines < FIRST_LINES ? at : this.#takeRun(bytes, at, begin);
      if (this.#texts.mixed) return false; // Python reads one answer only
      if (next > at) {
        this.#ids.read(bytes, at, next);
        begin = at = next;
        this.#unknown = 0;
        continue;
      }
      const end = bytes.indexOf(LF, at);
      if (end < 0) break;
      const cr = bytes.subarray(at, end).indexOf(CR);
      if (cr >= 0 && cr < end - 1 - at) return false; // Python sees two lines
      this.#ids.read(bytes, at, end + 1);
      at = end + 1;
      this.#lines++;
      if (++this.#unknown < this.#due || this.#shapes.length >= MOST_SHAPES) continue;
      const most = begin + Math.max(0, at - begin - (SLICE >> 4));
      const before = this.#shapes.length;
      for (const shape of await this.find(bytes.slice(most, at))) this.#learn(shape);
      this.#unknown = 0;
      this.#due = this.#shapes.length > before ? UNKNOWN_LINES : 2 * this.#due;
    }
    if (begin < at) this.#left.push(bytes.slice(begin, at));
    this.#held = bytes.slice(at);
    return true;
  }

  /** @returns {Folded | undefined} */
  end() {
    this.#ids.read(this.#held, 0, this.#held.length);
    this.#ids.read(new Uint8Array([LF, LF]), 0, 2);
    if (!this.#runs.length) return undefined;
    this.#left.push(this.#held);
    const shapes = JSON.stringify(this.#found);
    return {
      left: new Blob(this.#left),
      taken: `{"shapes":${shapes},"runs":[${this.#runs.join()}],"again":[${this.#ids.again.join()}]}`,
    };
  }

  /** @param {Shape} shape */
  #learn([parts, kinds]) {
    const utf8 = new TextEncoder();
    this.#found.push([parts, kinds]);
    this.#shapes.push({
      parts: parts.map((part) => utf8.encode(part)),
      kinds,
      number: kinds.indexOf("count"),
      id: parts.findIndex((part, n) => kinds[n] === "string" && /"id": ?"$/.test(part)),
    });
  }

  /**
   * Take out the events of one shape that begin at `at`. Returns where the next line begins; `at`
   * if they stay.
   * @param {Uint8Array<ArrayBuffer>} bytes
   * @param {number} at
   * @param {number} begin  Of the lines that are left and not in `#left` yet.
   */
  #takeRun(bytes, at, begin) {
    for (let n = 0; n < this.#shapes.length; n++) {
      const index = (this.#last + n) % this.#shapes.length;
      const known = /** @type {Known} */ (this.#shapes[index]);
      const run = this.#texts.read(known, bytes, at);
      if (!run) continue;
      this.#last = index;
      if (begin < at) this.#left.push(bytes.slice(begin, at));
      this.#runs.push(`[${this.#lines},${index},${run.step},${run.numbers},[${run.texts}]]`);
      return run.end;
    }
    return at;
  }
}

/** Finds the events that came again, of which the lines that are taken out say nothing. */
class Ids {
  /** The lines of the data that came with an earlier `id:`. @type {number[]} */
  again = [];
  /** By `id`, the hash of its data. @type {Map<string, number> | undefined} */
  #seen = new Map();
  /** Data is not read for nothing: if the first events have no id, from the first id on. */
  #reads = true;
  #id = "";
  #hash = 0;
  #line = 0;
  /** Where the data of the event begins. */
  #begin = 0;

  /** @param {Uint8Array} bytes @param {number} from @param {number} to  Where a line ends. */
  read(bytes, from, to) {
    for (let at = from, next; this.#seen && at < to; at = next) {
      next = bytes.indexOf(LF, at) + 1 || to;
      this.#line++;
      const kind = bytes[at];
      if (kind === LF || kind === CR) this.#close(this.#seen);
      else if (kind === 0x69 && bytes[at + 1] === 0x64 && bytes[at + 2] === COLON) {
        this.#id = ascii(bytes, at + 3, next).trim();
        this.#reads = true;
      } else if (this.#reads && kind === 0x64 && bytes[at + 4] === COLON) {
        let [end, hash] = [next, this.#hash];
        while (bytes[end - 1] === LF || bytes[end - 1] === CR) end--;
        for (let n = at; n < end; n++)
          hash = Math.imul(hash ^ /** @type {number} */ (bytes[n]), 0x01000193);
        this.#hash = hash;
        this.#begin ||= this.#line;
      }
    }
  }

  /** An event ends. @param {Map<string, number>} seen */
  #close(seen) {
    if (this.#id && this.#hash) {
      const before = seen.get(this.#id);
      if (before === undefined) seen.set(this.#id, this.#hash);
      else if (before === this.#hash) this.again.push(this.#begin);
      // An id of two events does not tell them apart.
      else [this.#seen, this.again] = [undefined, []];
    }
    this.#reads = seen.size > 0 || this.#line < UNKNOWN_LINES;
    this.#id = "";
    this.#hash = this.#begin = 0;
  }
}

/** Reads the texts of events that follow each other. */
class Texts {
  /** The texts as JSON, each with its quotes and a comma. */
  #bytes = new Uint8Array(1 << 16);
  #size = 0;
  /** @type {number[]} */
  #numbers = [];
  #utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** The last `id`, and all so far, at most one more than `MOST_ANSWERS`. */
  #id = "";
  #ids = new Set();
  /** Whether an `id` came back after another one. */
  mixed = false;

  /**
   * The events of a shape from `at` on; undefined if they are few, or no events of this shape.
   * @param {Known} known
   * @param {Uint8Array} bytes
   * @param {number} at
   */
  read(known, bytes, at) {
    this.#size = 0;
    this.#numbers = [];
    let [count, step] = [0, 0];
    while (count < MOST_EVENTS) {
      const before = this.#size;
      const end = this.#event(known, bytes, at);
      const lines = end < 0 ? 0 : (step ||= stepAt(bytes, end));
      const next = lines ? afterGap(bytes, end, lines - 1) : -1;
      if (next < 0) {
        this.#size = before;
        this.#numbers.length = count;
        break;
      }
      at = next;
      count++;
    }
    if (count < LEAST_EVENTS) return undefined;
    const numbers = known.number < 0 ? null : `[${this.#numbers.join()}]`;
    try {
      const texts = this.#utf8.decode(this.#bytes.subarray(0, this.#size - 1));
      return { texts, numbers, step, end: at };
    } catch {
      return undefined; // not UTF-8
    }
  }

  /**
   * Read one event. Returns where the next line begins; -1 for other lines.
   * @param {Known} known
   * @param {Uint8Array} bytes
   * @param {number} at
   */
  #event({ parts, kinds, id }, bytes, at) {
    for (let n = 0; n < parts.length; n++) {
      const part = /** @type {Uint8Array} */ (parts[n]);
      for (let i = 0; i < part.length; i++) if (bytes[at++] !== part[i]) return -1;
      const kind = kinds[n];
      if (!kind) break;
      const begin = at;
      at =
        kind === "text"
          ? this.#text(bytes, at)
          : kind === "string"
            ? afterString(bytes, at)
            : afterNumber(bytes, at, kind === "count");
      if (at < 0) return -1;
      if (n === id && this.#ids.size <= MOST_ANSWERS) this.#see(ascii(bytes, begin, at));
      if (kind === "count") this.#numbers.push(Number(ascii(bytes, begin, at)));
    }
    if (bytes[at] === CR) at++;
    return bytes[at] === LF ? at + 1 : -1;
  }

  /** @param {string} id */
  #see(id) {
    if (id === this.#id) return;
    this.mixed ||= this.#ids.has(id);
    this.#ids.add(id);
    this.#id = id;
  }

  /**
   * Add the text up to a quote. Returns where the quote is; -1 if the text needs care.
   * @param {Uint8Array} bytes
   * @param {number} begin
   */
  #text(bytes, begin) {
    let at = begin;
    for (let byte = bytes[at]; byte !== QUOTE; byte = bytes[++at]) {
      if (byte === undefined || byte < 0x20) return -1;
      if (byte === BACKSLASH) {
        if (!isEscape(bytes[++at])) return -1;
      } else if (byte === 0xef && bytes[at + 1] === 0xbf && bytes[at + 2] === 0xbd) return -1;
      else if (byte === 0xf4 && bytes[at + 1] === 0x8f) return -1; // see parse.py
    }
    if (at === begin) return -1;
    const size = this.#size + at - begin + 3;
    if (size > this.#bytes.length) {
      const larger = new Uint8Array(2 * size);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    const into = this.#bytes;
    let to = this.#size;
    into[to++] = QUOTE;
    for (let n = begin; n < at; n++) into[to++] = /** @type {number} */ (bytes[n]);
    into[to++] = QUOTE;
    into[to++] = 0x2c;
    this.#size = to;
    return at;
  }
}

/** Whether a byte is a letter of JSON's short escapes. @param {number | undefined} byte */
const isEscape = (byte) => byte !== undefined && '"\\/bfnrt'.includes(String.fromCharCode(byte));

/** @param {Uint8Array} bytes @param {number} at */
function afterString(bytes, at) {
  for (let byte = bytes[at]; byte !== QUOTE; byte = bytes[++at])
    if (byte === undefined || byte < 0x20 || byte > 0x7e || byte === BACKSLASH) return -1;
  return at;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {boolean} isCount  Neither negative nor a fraction.
 */
function afterNumber(bytes, at, isCount) {
  const pattern = isCount ? /^(0|[1-9]\d{0,14})/ : /^-?(0|[1-9]\d{0,14})(\.\d{1,17})?/;
  const [found] = pattern.exec(ascii(bytes, at, at + 36)) ?? [];
  return found ? at + found.length : -1;
}

/** @param {Uint8Array} bytes @param {number} from @param {number} to */
const ascii = (bytes, from, to) => String.fromCharCode(...bytes.subarray(from, to));

/**
 * How many lines on the next event is, after one that ends at `at`; 0 if that is not known.
 * @param {Uint8Array} bytes
 * @param {number} at
 */
function stepAt(bytes, at) {
  for (let step = 1; step <= MOST_APART; step++) {
    if (bytes[at] === 0x64 || bytes[at] === 0x7b) return step; // "d" and "{"
    at = bytes.indexOf(LF, at) + 1;
    if (!at) return 0;
  }
  return 0;
}

/**
 * Where the next event begins after so many lines without data; -1 if they say something.
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} lines
 */
function afterGap(bytes, at, lines) {
  for (let n = 0; n < lines; n++) {
    const next = bytes.indexOf(LF, at) + 1;
    const end = bytes[next - 2] === CR ? next - 2 : next - 1;
    if (!next || (end > at && !/^(event|id):/.test(ascii(bytes, at, at + 6)))) return -1;
    if (end > at && bytes.subarray(at, end).includes(CR)) return -1;
    at = next;
  }
  return at;
}
