/**
 * The calls of a page to Python, which has many streams, and to the sockets of these streams.
 *
 * Only Python interprets frames and options (detok_py/page/streams.py).
 */

/**
 * @param {() => import("./boot-micropython.js").Python} python  Once it has booted.
 * @param {(batch: import("./socket.js").Batch & {stream: number}) => void} onBatch
 * @param {(error: unknown) => void} onBroken  Python cannot continue: out of memory, or a trap.
 * @param {(url: string) => any} load  Gives the module socket.js.
 */
export function streamCalls(python, onBatch, onBroken, load) {
  /** @type {typeof import("./socket.js").EngineSocket} */
  let EngineSocket;
  /** @type {Map<number, InstanceType<typeof EngineSocket>>} */
  const sockets = new Map();
  /**
   * Call a function of detok_py/page/streams.py. A Python exception concerns one stream; after
   * anything else Python cannot continue.
   * @param {string} name
   * @param {unknown[]} args
   */
  const ask = (name, ...args) => {
    try {
      return python().streams[name](...args);
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "PythonError") onBroken(error);
      throw error;
    }
  };
  return {
    /** Call a function of detok_py/page/streams.py. @param {string} name @param {unknown[]} args */
    ask: (name, ...args) =>
      JSON.parse(
        ask(name, ...args.map((arg) => (arg instanceof Uint8Array ? python().fill(arg) : arg))),
      ),
    /** @param {string} name @param {Blob} file */
    packTokenizer: (name, file) => python().pack?.(name.replace(/[^\w.-]/g, "_"), file),

    /** Load what `connect` needs; other streams don't. @param {string} url */
    async prepare(url) {
      // If a bundler has turned the module into a script, it exports nothing, but sets this global.
      ({ EngineSocket = /** @type {any} */ (globalThis).detokSocket } = await load(url));
    },
    /**
     * @param {number} stream
     * @param {string} url
     * @param {string} request  JSON.
     * @param {string} [token]
     */
    connect(stream, url, request, token) {
      ask("open_answer", stream, request);
      const socket = new EngineSocket(
        url,
        (method, ...args) => {
          try {
            return ask("ask_answer", stream, method, ...args);
          } catch (error) {
            const [message] = /.*$/.exec(String(/** @type {Error} */ (error).message).trim()) ?? [];
            const failed = { type: "failed", code: 1011, message, deltas: [] };
            return JSON.stringify({ events: [failed] });
          }
        },
        (bytes) => python().fill(bytes),
        (batch, over) => {
          if (over) {
            sockets.delete(stream);
            ask("release", stream);
          }
          onBatch({ stream, ...batch });
        },
        token,
      );
      sockets.set(stream, socket);
      socket.connect();
    },
    /** @param {number} stream @param {string} method @param {unknown[]} args */
    tell: (stream, method, ...args) => sockets.get(stream)?.tell(method, ...args),
    /** Forget a stream, and stop the engine that answers it. @param {number} stream */
    release(stream) {
      sockets.get(stream)?.giveUp();
      if (python()) ask("release", stream);
    },
  };
}
