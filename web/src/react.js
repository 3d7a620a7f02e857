/**
 * An answer as React state: `const { text, status, send, stop } = useAnswer("/stream")`.
 *
 * In: a prompt or messages, by `send`; or any answer, by a function. Out: text, reasoning and tool
 * calls so far; a component is rendered at most once a frame. Held: one answer; it is cancelled
 * when the component is unmounted.
 */

"use client"; // not for React on servers

import { useEffect, useState, useSyncExternalStore } from "react";
import { AnswerStore } from "./store.js";

/**
 * @typedef {import("./store.js").AnswerState} AnswerState
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 */

/**
 * An answer as state of this component.
 * @template [Request=string | AnswerOptions]
 * @param {string | URL | import("./store.js").Ask<Request>} source  The bridge's WebSocket, or a
 *   function that answers, such as `(prompt, { signal }) => readAnswer(fetch(…, { signal }))`.
 * @param {AnswerOptions} [options]  For a bridge, as for `connect`; those of `send` overrule them.
 * @returns {AnswerState & import("./store.js").Asking<Request>}
 */
export function useAnswer(source, options = {}) {
  const [store] = useState(
    () => /** @type {AnswerStore<Request>} */ (new AnswerStore(source, options)),
  );
  const state = useSyncExternalStore(store.subscribe, store.read, store.read);
  useEffect(() => {
    store.source = source;
    store.options = options;
  });
  useEffect(() => store.stop, [store]);
  return { ...state, send: store.send, stop: store.stop };
}
