/**
 * The messages between a page and its worker: every shape that crosses, and nothing else.
 *
 * A call is `{call, id, args}`; its reply is `{reply: id, value}` or `{reply: id, error}`. A note is `{note, value}`
 * and has no reply. Replies match calls by id, in any order. An error crosses as `{name, message, stack}` plus
 * `code` where it has one, and is an Error again on the other side. When the other side is gone, `end(error)`
 * rejects all that is still open and all that is asked later: nothing waits for ever.
 *
 * Works over anything with `postMessage` and `message` events: a Worker, a worker's own scope, a MessagePort.
 */

/**
 * @typedef {object} Port
 * @property {(message: any, transfer?: any) => void} postMessage
 * @property {(type: "message", listener: (event: any) => void) => void} addEventListener
 * @property {() => void} [start]
 *
 * @typedef {{name: string, message: string, stack?: string, code?: number | string}} CrossedError
 * @typedef {{call: string, id: number, args: unknown[]}} CallMessage
 * @typedef {{reply: number, value?: unknown, error?: CrossedError}} ReplyMessage
 * @typedef {{note: string, value: unknown}} NoteMessage
 *
 * @typedef {{step: string, loaded: number, total: number}} Progress  What is being done; bytes of it, where they are counted.
 *
 * @typedef {object} Calls
 * @property {(name: string, ...args: unknown[]) => Promise<any>} call  Ask the other side; rejects with its error.
 * @property {(error: Error) => void} end  The other side is gone: reject what is open and what comes.
 */

/**
 * The plain object that an error travels as.
 * @param {unknown} error
 * @returns {CrossedError}
 */
export function crossError(error) {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  const { name, message, stack } = error;
  const code = /** @type {{code?: number | string}} */ (error).code;
  return code === undefined ? { name, message, stack } : { name, message, stack, code };
}

/**
 * The Error that `crossError` made plain: same name, message, stack and code.
 * @param {CrossedError} crossed
 * @returns {Error & {code?: number | string}}
 */
export function restoreError(crossed) {
  const error = new Error(crossed.message);
  error.name = crossed.name;
  if (crossed.stack !== undefined) error.stack = crossed.stack;
  return crossed.code === undefined ? error : Object.assign(error, { code: crossed.code });
}

/**
 * Serve `methods` to whoever calls over `port`. What a method throws goes back as its error.
 * @param {Port} port
 * @param {Record<string, (...args: any[]) => unknown>} methods
 */
export function answerCalls(port, methods) {
  port.addEventListener("message", async ({ data }) => {
    if (typeof data?.call !== "string") return;
    const { call, id, args } = /** @type {CallMessage} */ (data);
    /** @type {ReplyMessage} */
    let reply;
    try {
      const method = Object.hasOwn(methods, call) ? methods[call] : undefined;
      if (!method) throw new TypeError(`no method ${call}: there are ${Object.keys(methods).join(", ")}`);
      reply = { reply: id, value: await method(...args) };
    } catch (error) {
      reply = { reply: id, error: crossError(error) };
    }
    port.postMessage(reply);
  });
  port.start?.();
}

/**
 * Call the methods that the other side of `port` answers.
 * @param {Port} port
 * @param {(name: string, value: any) => void} [onNote]  Gets every note that the other side posts.
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
    const { reply, value, error } = /** @type {ReplyMessage} */ (data ?? {});
    const waiting = open.get(reply);
    if (!waiting) return;
    open.delete(reply);
    if (error) waiting.reject(restoreError(error));
    else waiting.resolve(value);
  });
  port.start?.();
  return {
    call(name, ...args) {
      if (ended) return Promise.reject(ended);
      return new Promise((resolve, reject) => {
        port.postMessage({ call: name, id: ++last, args }); // throws, and so rejects, where an argument cannot cross
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

/**
 * Tell the other side something that needs no reply.
 * @param {Port} port
 * @param {string} name
 * @param {unknown} value
 */
export function postNote(port, name, value) {
  port.postMessage({ note: name, value });
}

/**
 * Hold a lock for as long as this worker lives, so that the page hears of its end. Resolves once it is held. A page that is neither on
 * https nor on this machine has no locks: it hears only of what the worker itself can still say.
 * @param {string} lock
 */
export async function holdWhileAlive(lock) {
  if (navigator.locks) await new Promise((held) => navigator.locks.request(lock, () => (held(null), new Promise(() => {}))).catch(held));
}

/**
 * Call `tell` when the worker that holds this lock is gone, whatever ended it: out of memory, or closed without a word.
 * @param {string} lock
 * @param {() => void} tell
 */
export function whenGone(lock, tell) {
  globalThis.navigator.locks?.request(lock, tell).catch(() => {});
}
