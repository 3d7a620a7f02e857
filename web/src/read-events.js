/**
 * Turns events of chat APIs, and their whole answers, into deltas.
 *
 * In: events, whose data is JSON. Out: deltas, those of calls with their number and name. Held:
 * half a surrogate pair that an engine cut between two events, and the open tool call. The table of
 * shapes is event-shapes.js; detok_py/captures/event_shapes.py explains its rows and paths.
 */

import { DetokError } from "./decoder.js";
import { ROWS } from "./event-shapes.js";

/**
 * @typedef {import("./detok-stream.js").Delta} Delta
 * @typedef {Record<string, any>} Row  What an event of one shape says: conditions and paths.
 * @typedef {{index: unknown, id: string, name: string, text: string, whole: boolean}} Call
 */

const isObject = (/** @type {any} */ value) => value !== null && typeof value === "object";
const isGiven = (/** @type {unknown} */ value) => value !== undefined && value !== null;

/**
 * A function that follows one step of a path.
 * @param {string} step
 * @returns {(value: any) => any[]}
 */
function walk(step) {
  if (step === "[*]") return (value) => (Array.isArray(value) ? value : [value]);
  const [, not, key = "", wanted] = /^\[(!?)([^=]*)=?(.*)\]$/.exec(step) ?? [];
  const keys = step.split(",");
  if (key)
    return (value) =>
      (Array.isArray(value) ? value : [value]).filter(
        (item) => isObject(item) && (wanted ? item[key] === wanted : !item[key] === (not === "!")),
      );
  return (value) => {
    if (!isObject(value) || Array.isArray(value)) return [];
    const found = keys.filter((one) => Object.hasOwn(value, one)).map((one) => value[one]);
    return [...found.filter((one) => isGiven(one) && one !== ""), ...found].slice(0, 1);
  };
}

/** @type {Map<string, {steps: ((value: any) => any[])[], word: string | undefined}[]>} */
const parsed = new Map();

/** The alternatives of a path. @param {string} path */
function waysOf(path) {
  const ways =
    parsed.get(path) ??
    path.split("|").map((way) => {
      const [steps = "", word] = way.split("?");
      return { steps: steps.replaceAll("[", ".[").split(".").filter(Boolean).map(walk), word };
    });
  parsed.set(path, ways);
  return ways;
}

/** @param {unknown} event @param {((value: any) => any[])[]} steps @returns {any[]} */
const follow = (event, steps) => steps.reduce((values, step) => values.flatMap(step), [event]);

/** The values that a path finds. @param {unknown} event @param {string} [path] @returns {any[]} */
function find(event, path) {
  /** @type {unknown[]} */
  let empty = [];
  for (const { steps, word } of path === undefined ? [] : waysOf(path)) {
    let found = follow(event, steps).filter(isGiven);
    if (word) found = found.some(Boolean) ? [word] : [];
    if (found.some((value) => value !== "")) return found;
    if (!empty.length) empty = found;
  }
  return empty;
}

/**
 * The strings at a path.
 * @param {unknown} event
 * @param {string} [path]
 * @param {string[]} [types]  Of the values that are taken.
 */
const wordAt = (event, path, types = ["string"]) =>
  find(event, path)
    .filter((value) => types.includes(typeof value))
    .join("");

/** Some servers write digits as numbers. */
const TEXT = ["string", "number"];

/**
 * Whether an event meets a condition.
 * @param {string} condition
 * @returns {(event: any) => boolean}
 */
function meets(condition) {
  const [, path = "", mark, wanted = ""] = /^([^=~]*)([=~]?)(.*)$/.exec(condition) ?? [];
  const steps = waysOf(path)[0]?.steps ?? [];
  const names = wanted.split(",");
  if (mark === "~")
    return (event) => follow(event, steps).some((one) => String(one).includes(wanted));
  if (mark) return (event) => follow(event, steps).some((one) => names.includes(one));
  return (event) => follow(event, steps).length > 0;
}

/** @type {Map<unknown, {row: Row, applies: (event: any) => boolean}[]>} */
const byType = new Map([[undefined, []]]);
for (const row of ROWS) {
  /** @type {((event: any) => boolean)[]} */
  const conditions = (row.when?.split(" ") ?? []).map(meets);
  const applies = row.when
    ? (/** @type {any} */ event) => conditions.every((holds) => holds(event))
    : (/** @type {any} */ event) =>
        find(event, row.text ?? row.error).some((value) =>
          row.error ? value : typeof value === "string",
        );
  const types = /^type=(\S+)/.exec(row.when ?? "")?.[1]?.split(",") ?? [undefined];
  for (const type of types) byType.set(type, [...(byType.get(type) ?? []), { row, applies }]);
}

/** The row that applies to an event; rows for its exact type come first. @param {any} event */
const rowOf = (event) =>
  [event?.type, undefined]
    .flatMap((type) => byType.get(type) ?? [])
    .find(({ applies }) => applies(event))?.row;

/** A string as it is, "" for nothing, and JSON for another value. @param {unknown} value */
const asText = (value) =>
  typeof value === "string" ? value : isGiven(value) ? JSON.stringify(value) : "";

/** @param {unknown} event @param {Row} paths @returns {Call[]} */
const callsOf = (event, paths) =>
  find(event, paths.at ?? "").flatMap((call) => {
    const name = wordAt(call, paths.name);
    const given = find(call, paths.arguments);
    if (!name && !given.length) return [];
    const index = find(call, paths.index)[0];
    return [
      { index, id: wordAt(call, paths.id), name, text: asText(given[0]), whole: !!paths.whole },
    ];
  });

/** Events that keep a connection open. */
const NO_TEXT = /^(\[?(ping|pong|(keep-?)?alive|heart-?beat)\]?)?$/i;

/** The last words of names of events in which a string alone is no text. */
const NO_TEXTS =
  /^(connect(ed|ion)?|open(ed)?|ready|start(ed)?|begin|init|title|status|state|id|session|thread|conversation|run|model|meta(data)?|info|log|debug|usage|ping|step|tool|sources?|citations?|suggestions?)$/;
const ENDS = /^(done|end|complete|completed|finish|finished|stop)$/;
const FAILED = /^(error|exception|failed)$/;
/** Words of what is a part of an answer: its end or its error is not the answer's. */
const PARTS =
  /^(agent|block|call|content|function|node|part|plan|reasoning|retriever|search|step|task|thinking|tool)s?$/;

/**
 * The value to read for an event of such a name; undefined if it is no text of the answer. As
 * `value_named` in detok_py/captures/named.py, which takes less for text: there all has come.
 * @param {string} name
 * @param {any} value
 */
function valueNamed(name, value) {
  const words = name.toLowerCase().split(/[-_]/);
  const last = words[words.length - 1] ?? "";
  const isEmpty = isObject(value) && !Object.keys(value).length;
  const isPart = words.some((word) => PARTS.test(word));
  if (!isPart && words.some((word) => FAILED.test(word))) {
    const known = ["error", "type", "detail"].some((key) => Object.hasOwn(Object(value), key));
    return known || !value || isEmpty ? value : { error: value };
  }
  if (words.includes("replace") && isObject(value) && !("event" in value)) return { replaced: "" };
  if (!isPart && ENDS.test(last) && isEmpty) return { done: true };
  return typeof value === "string" && NO_TEXTS.test(last) ? undefined : value;
}

/** Why an answer ended that may be cut short. */
const LIMIT = /length|max|limit|incomplete/i;

/** @param {string} text */
export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Numbers the tool calls of an answer, and marks where each begins and ends. */
class Calls {
  /** By index. @type {Map<unknown, Call & {number: number, given: string}>} */
  #open = new Map();
  /** @type {unknown[]} */
  #seen = [];
  #ids = new Set();
  /** The one that came last, which a limit may have cut. @type {unknown} */
  #last;

  /** The deltas of one piece of a call. @param {Call} call @returns {Delta[]} */
  feed(call) {
    const { index, id, name, text } = call;
    let open = id ? [...this.#open.values()].find((one) => one.id === id) : undefined;
    open ??= this.#open.get(index);
    // Some servers send pieces and then the whole; others announce a call, and send the whole.
    const hasPlace = index !== undefined;
    const isIts = hasPlace || !id || !open?.id || open.id === id;
    const waits = call.whole && open?.given === "" && isIts;
    const isSeen = this.#seen.includes(index) && (hasPlace || !id);
    if (call.whole && !waits && (isSeen || this.#ids.has(id))) return [];
    /** @type {Delta[]} */
    const out = [];
    /** @type {Partial<Delta>} */
    let begin = {};
    // Some servers give all calls of an answer the same index, or none.
    if (!open || (!waits && name !== "" && (id ? id !== open.id : index === undefined))) {
      // Others may go on later, beside this one.
      for (const other of this.#open.values())
        if (other === open || other.index === undefined || isJson(other.given))
          out.push(...this.#close(other));
      open = { ...call, number: this.#seen.push(index) - 1, given: "" };
      this.#open.set(index, open);
      if (id) this.#ids.add(id);
      begin = { name, ...(id && { id }) };
    }
    this.#last = open;
    open.given += text;
    if (text || begin.name !== undefined)
      out.push({ channel: "tool_call", text, call: open.number, ...begin });
    return out;
  }

  /**
   * The end of a call; nothing if its arguments break off.
   * @param {{index: unknown, number: number, given: string}} open
   * @param {string} [reason]  Why the answer ended.
   * @returns {Delta[]}
   */
  #close({ index, number, given }, reason = "") {
    this.#open.delete(index);
    // Some tools take other text than JSON.
    const whole = isJson(given) || (!LIMIT.test(reason) && given[0] !== "{");
    const text = given ? "" : "{}";
    return whole ? [{ channel: "tool_call", text, call: number, complete: true }] : [];
  }

  /** The end of all calls. @param {string} [reason] @returns {Delta[]} */
  flush(reason) {
    const calls = [...this.#open.values()];
    return calls.flatMap((open) => this.#close(open, open === this.#last ? reason : ""));
  }
}

/**
 * Turn events into deltas. How the answer ended is written into `end`, because an error of the
 * stream would drop deltas that nobody has read yet.
 * @param {{reason?: string, error?: DetokError}} end
 * @returns {TransformStream<{event: string, data: string}, Delta>}
 */
export function deltasOf(end) {
  /** Half a surrogate pair that waits, by channel and call. @type {Map<string, Delta>} */
  const halves = new Map();
  const calls = new Calls();
  let sent = "";
  let over = false;
  let ended = false; // by a reason or [DONE], not by what every event of some servers has
  let isKnown = false;
  /** The type or the keys of the first event whose shape is unknown. @type {string | undefined} */
  let unknown;
  /**
   * @param {TransformStreamDefaultController<Delta>} controller
   * @param {Delta} delta
   */
  const give = (controller, { channel, text, ...more }) => {
    const key = `${channel} ${more.call}`;
    const whole = (halves.get(key)?.text ?? "") + text;
    // An engine may write a character beyond U+FFFF as two escapes, in two events.
    const cut = whole.length - (/[\ud800-\udbff]$/.test(whole) && !more.complete ? 1 : 0);
    halves.set(key, { channel, text: whole.slice(cut), call: more.call });
    if (cut || more.name !== undefined || more.complete)
      controller.enqueue({
        channel,
        text: whole.slice(0, cut).replace(/\p{Surrogate}/gu, "\ufffd"),
        ...more,
      });
  };
  return new TransformStream({
    transform({ event: type, data }, controller) {
      if (NO_TEXT.test(data.trim())) return;
      if (/^\s*"?\[DONE\]"?\s*$/.test(data)) {
        over = ended = true;
        return;
      }
      const fail = (/** @type {string} */ sentence, /** @type {number} */ code = NaN) => {
        end.error = new DetokError(sentence, {
          kind: "server",
          // The server would refuse the same question again.
          retry: !(code >= 400 && code < 500 && code !== 408 && code !== 429),
          code: code >= 100 && code < 5000 ? code : undefined,
        });
        controller.terminate();
      };
      let value;
      try {
        value = valueNamed(type, JSON.parse(data));
      } catch {
        if (type === "error") return fail(data);
        if (ended || NO_TEXT.test(type)) return; // as clients of events do with what they don't know
        if (end.error) return controller.terminate(); // the connection broke inside an event
        return fail(
          "The server sent an event that is not JSON: the stream was cut, or it does not come from an engine. The text so far is kept.",
        );
      }
      for (const event of Array.isArray(value) ? value : [value]) {
        const row = rowOf(event);
        if (!row) {
          if (event === undefined) unknown ??= `event: ${type}`;
          if (isObject(event)) unknown ??= String(event.type ?? Object.keys(event).join(", "));
          continue;
        }
        const error = find(event, row.error)[0];
        if (error) return fail(asText(error), Number(find(event, row.code)[0]));
        isKnown = true;
        const from = row.in === undefined ? event : find(event, row.in)[0];
        // KoboldCpp and DashScope write null as a string; the other word is of watsonx.ai.
        const reason = wordAt(from, row.finish).replace(/^(null|not_finished)$/, "");
        let text = wordAt(from, row.text, TEXT);
        if (row.repeats) {
          const whole = text;
          // At its end, a U+FFFD stands for a character that is not complete yet.
          if (!reason) text = text.replace(/\ufffd+$/, "");
          let same = text.startsWith(sent) ? sent.length : 0;
          while (same < text.length && text[same] === sent[same]) same++;
          // Some servers repeat nothing.
          if (2 * same < sent.length) sent += text = whole;
          else [sent, text] = [text, text.slice(same)];
        }
        give(controller, { channel: "reasoning", text: wordAt(from, row.reasoning, TEXT) });
        give(controller, { channel: "content", text });
        for (const call of row.calls ? callsOf(from, row.calls) : [])
          for (const delta of calls.feed(call)) give(controller, delta);
        if (reason) end.reason = reason;
        ended ||= Boolean(reason);
        over ||= Boolean(reason || find(event, row.over)[0]);
      }
    },
    flush(controller) {
      if (over) for (const delta of calls.flush(end.reason)) give(controller, delta);
      for (const { channel, text, call } of halves.values())
        if (text)
          controller.enqueue({ channel, text: "\ufffd", ...(call !== undefined && { call }) });
      if (!isKnown && unknown)
        end.error ??= new DetokError(
          `The server's answer has an unknown shape (${unknown}); read it yourself, and write its text into a DetokStream.`,
          { kind: "server" },
        );
      if (!over)
        end.error ??= new DetokError(
          "The server's stream ended before the answer did; the text so far is kept. Ask again for the whole answer.",
          { kind: "server", retry: true },
        );
    },
  });
}
