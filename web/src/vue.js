/**
 * An answer as Vue state: `const { state, send, stop } = useAnswer("/stream")`.
 *
 * In: a prompt or messages, by `send`. Out: `state`, a ref that changes at most once a frame. Held:
 * one answer; it is cancelled when the component, or the effect scope, ends.
 */

import { getCurrentScope, onScopeDispose, shallowReadonly, shallowRef, toValue } from "vue";
import { AnswerStore } from "./store.js";

/**
 * @typedef {import("./store.js").AnswerState} AnswerState
 * @typedef {import("./store.js").Asking} Asking
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 *
 * @typedef {object} State  The state of an answer.
 * @property {Readonly<import("vue").ShallowRef<AnswerState>>} state  Changes at most once a frame.
 */

/**
 * An answer of a bridge.
 * @param {import("vue").MaybeRefOrGetter<string | URL>} url  The bridge's WebSocket.
 * @param {import("vue").MaybeRefOrGetter<AnswerOptions>} [options]  As for `connect`; those of
 *   `send` overrule them.
 * @returns {State & Asking}
 */
export function useAnswer(url, options = {}) {
  const store = new AnswerStore();
  const state = shallowRef(store.read());
  const unsubscribe = store.subscribe(() => (state.value = store.read()));
  if (getCurrentScope())
    onScopeDispose(() => {
      unsubscribe();
      store.stop();
    });
  /** @type {AnswerStore["send"]} */
  const send = (request) => {
    store.url = toValue(url);
    store.options = toValue(options);
    return store.send(request);
  };
  return { state: /** @type {any} */ (shallowReadonly(state)), send, stop: store.stop };
}
