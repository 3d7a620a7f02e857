/**
 * The messages between a page and its worker.
 *
 * A call is `{call, id, args}`; its reply is `{reply: id, value}` or `{reply: id, error}`, in any
 * order. A note is `{note, value}` and has no reply. An error crosses as `{name, message, stack}`,
 * with `code` if it has one. Works over anything with `postMessage` and `message` events.
 */

/**
 * @typedef {object} Port
 * @property {(message: any, transfer?: any) => void} postMessage
 * @property {(type: "message", listener: (event: any) => void) => void} addEventListener
 * @property {() => void} [start]
 *
 * @typedef {Error & {code?: number | string}} CodedError
 * @typedef {object} Progress  How far booting is.
 * @property {string} step    What is being done, for a person.
 * @property {number} loaded  Bytes.
 * @property {number} total   Bytes; 0 while not known.
 *
 * @typedef {object} Calls
 * @property {(name: string, ...args: unknown[]) => Promise<any>} call  Rejects with the other
 *   side's error.
 * @property {(error: Error) => void} end  The other side has ended: reject all open and later
 *   calls.
 */

/**
 * Serve `methods` over `port`.
 * @param {Port} port
 * @param {Record<string, (...args: any[]) => any>} methods
 */
export function answerCalls(port, methods) {
  port.addEventListener("message", async ({ data }) => {
    if (typeof data?.call !== "string") return;
    const { call, id, args } = data;
    try {
      if (!Object.hasOwn(methods, call)) throw new TypeError(`no method ${call}`);
      port.postMessage({ reply: id, value: await methods[call]?.(...args) });
    } catch (thrown) {
      const error = /** @type {CodedError} */ (
        thrown instanceof Error ? thrown : new Error(String(thrown))
      );
      const { name, message, stack, code } = error;
      port.postMessage({ reply: id, error: { name, message, stack, code } });
    }
  });
  port.start?.();
}

/**
 * Call the methods that the other side of `port` serves; `onNote` gets the notes that it posts.
 * @param {Port} port
 * @param {(name: string, value: any) => void} [onNote]
 * @returns {Calls}
 */
export function makeCalls(port, onNote = () => {}) {
  /** @type {Map<number, {resolve: (value: any) => void, reject: (error: Error) => void}>} */
  const open = new Map();
  /** @type {Error | undefined} */
  let ended;
  let last = 0;
  port.addEventListener("message", ({ data }) => {
    if (typeof data?.note === "string") return onNote(data.note, data.value);
    const { reply, value, error } = data ?? {};
    const waiting = open.get(reply);
    if (!waiting) return;
    open.delete(reply);
    if (error) waiting.reject(Object.assign(new Error(error.message), error));
    else waiting.resolve(value);
  });
  port.start?.();
  return {
    call(name, ...args) {
      if (ended) return Promise.reject(ended);
      return new Promise((resolve, reject) => {
        port.postMessage({ call: name, id: ++last, args }); // throws if an argument cannot cross
        open.set(last, { resolve, reject });
      });
    },
    end(error) {
      ended ??= error;
      for (const { reject } of open.values()) reject(ended);
      open.clear();
    },
  };
}

/** Post a note. @param {Port} port @param {string} name @param {unknown} value */
export function postNote(port, name, value) {
  port.postMessage({ note: name, value });
}

/**
 * Hold a lock while this worker lives, so that the page notices its end. Resolves once it is held.
 * Only pages on https or localhost have locks.
 * @param {string} lock
 */
export async function holdWhileAlive(lock) {
  if (navigator.locks)
    await new Promise((held) =>
      navigator.locks.request(lock, () => (held(null), new Promise(() => {}))).catch(held),
    );
}

/**
 * Call `tell` when the worker that holds this lock has ended.
 * @param {string} lock
 * @param {() => void} tell
 */
export function whenGone(lock, tell) {
  globalThis.navigator.locks?.request(lock, tell).catch(() => {});
}
