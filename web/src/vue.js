/**
 * An answer as Vue state: `const { state, send, stop } = useAnswer("/stream")`.
 *
 * In: a prompt or messages, by `send`; or any answer, by a function. Out: `state`, a ref that
 * changes at most once a frame. Held: one answer; it is cancelled when the component, or the effect
 * scope, ends.
 */

import { getCurrentScope, onScopeDispose, shallowReadonly, shallowRef, toValue } from "vue";
import { AnswerStore } from "./store.js";

/**
 * @typedef {import("./store.js").AnswerState} AnswerState
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 *
 * @typedef {object} State  The state of an answer.
 * @property {Readonly<import("vue").ShallowRef<AnswerState>>} state  Changes at most once a frame.
 */

/**
 * An answer.
 * @template [Request=string | AnswerOptions]
 * @param {import("vue").MaybeRef<string | URL> | import("./store.js").Ask<Request>} source  The
 *   bridge's WebSocket, or a function of a request and `{ signal }` that answers, or that returns
 *   the address.
 * @param {import("vue").MaybeRefOrGetter<AnswerOptions>} [options]  For a bridge, as for `connect`;
 *   those of `send` overrule them.
 * @returns {State & import("./store.js").Asking<Request>}
 */
export function useAnswer(source, options = {}) {
  /** @type {AnswerStore<Request>} */
  const store = new AnswerStore();
  const state = shallowRef(store.read());
  const unsubscribe = store.subscribe(() => (state.value = store.read()));
  if (getCurrentScope())
    onScopeDispose(() => {
      unsubscribe();
      store.stop();
    });
  /** @type {AnswerStore<Request>["send"]} */
  const send = (request) => {
    store.source = typeof source === "function" ? source : toValue(source);
    store.options = toValue(options);
    return store.send(request);
  };
  return { state: /** @type {any} */ (shallowReadonly(state)), send, stop: store.stop };
}
