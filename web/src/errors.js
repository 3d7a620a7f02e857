/** What a caller gets when something fails: one class, for all parts of the library. */

/**
 * @typedef {"option" | "data" | "network" | "policy" | "runtime" | "bridge" | "server"} ErrorKind
 *   What is wrong: an option; the data; a file or server that cannot be reached; a policy of the
 *   page or a server; Python, which could not start or is gone; the bridge; an HTTP server.
 */

/**
 * What went wrong: one sentence, its kind, and a close code of detok.v1 or an HTTP status if there
 * is one.
 */
export class DetokError extends Error {
  /**
   * @param {string} message
   * @param {{code?: number, kind?: ErrorKind, retry?: boolean, cause?: unknown}} [options]
   */
  constructor(message, { code, kind, retry = false, cause } = {}) {
    super(message, cause ? { cause } : undefined);
    /** A close code of detok.v1, or an HTTP status. */
    this.code = code;
    /** What kind of thing went wrong. @type {ErrorKind} */
    this.kind = kind ?? (code ? (code < 1000 ? "server" : "bridge") : "data");
    /** Whether asking again may help. */
    this.isRetryable = retry;
  }

  // On the prototype, so that stacks begin with it; a minifier renames the class.
  /** "DetokError". @override */
  get name() {
    return "DetokError";
  }
}

/** @param {any} error @returns {DetokError} */
export function asDetokError(error) {
  if (error instanceof DetokError) return error;
  // The last line of a Python traceback says what happened.
  const lines = String(error?.message ?? error)
    .trim()
    .split("\n");
  const said = lines.at(-1) || "It failed without a message.";
  return new DetokError(said.replace(/^[\w.]*Error: /, ""), { cause: error });
}
