/**
 * An answer as a Svelte store: `const answer = answerStore("/stream")`, then `$answer.text`.
 *
 * In: a prompt or messages, by `send`; or any answer, by a function. Out: a Svelte store, whose
 * state changes at most once a frame. Nothing of Svelte is imported. Held: one answer, which is
 * cancelled when the last subscriber leaves.
 */

import { AnswerStore } from "./store.js";

/**
 * @typedef {import("./store.js").AnswerState} AnswerState
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 *
 * @typedef {object} Readable  A store as Svelte reads it.
 * @property {(run: (state: AnswerState) => void) => () => void} subscribe  Calls `run` with the
 *   state, at once and when it changes; returns what ends that.
 */

/**
 * An answer.
 * @template [Request=string | AnswerOptions]
 * @param {string | URL | import("./store.js").Ask<Request>} source  The bridge's WebSocket, or a
 *   function of a request and `{ signal }` that answers.
 * @param {AnswerOptions} [options]  For a bridge, as for `connect`; those of `send` overrule them.
 * @returns {Readable & import("./store.js").Asking<Request>}
 */
export function answerStore(source, options = {}) {
  const store = new AnswerStore(source, options);
  let readers = 0;
  return {
    subscribe(run) {
      readers++;
      run(store.read());
      const unsubscribe = store.subscribe(() => run(store.read()));
      let subscribed = true;
      return () => {
        if (!subscribed) return;
        subscribed = false;
        unsubscribe();
        if (--readers === 0) store.stop();
      };
    },
    send: store.send,
    stop: store.stop,
  };
}
