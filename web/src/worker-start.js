/** Start a worker, if the page allows it. */

import { DetokError, asDetokError } from "./errors.js";

/** @type {{createScriptURL(url: string): unknown} | undefined} */
let policy;

/** @param {string} url @returns {Worker} */
export function startWorker(url) {
  try {
    policy ??= /** @type {any} */ (globalThis).trustedTypes?.createPolicy("detok-library", {
      createScriptURL: (/** @type {string} */ url) => url,
    });
    return new Worker(/** @type {any} */ (policy?.createScriptURL(url) ?? url), {
      type: "module",
      name: "detok",
    });
  } catch (error) {
    // The frame is sandboxed, or its Trusted Types do not allow the name of this policy.
    const { message } = asDetokError(error);
    throw new DetokError(`No worker can start here: ${message}`, { kind: "policy", cause: error });
  }
}
