/**
 * An answer as a Svelte store: `const answer = answerStore("/stream")`, then `$answer.text`.
 *
 * In: a prompt or messages, by `send`. Out: a Svelte store, whose state changes at most once a
 * frame. Nothing of Svelte is imported. Held: one answer, which is cancelled when the last
 * subscriber leaves.
 */

import { AnswerStore } from "./store.js";

/**
 * @typedef {import("./store.js").AnswerState} AnswerState
 * @typedef {import("./store.js").Asking} Asking
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 *
 * @typedef {object} Readable  A store as Svelte reads it.
 * @property {(run: (state: AnswerState) => void) => () => void} subscribe  Calls `run` with the
 *   state, at once and when it changes; returns what ends that.
 */

/**
 * An answer of a bridge.
 * @param {string | URL} url  The bridge's WebSocket.
 * @param {AnswerOptions} [options]  As for `connect`; those of `send` overrule them.
 * @returns {Readable & Asking}
 */
export function answerStore(url, options = {}) {
  const store = new AnswerStore(url, options);
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
