/**
 * An answer as React state: `const { text, status, send, stop } = useAnswer("/stream")`.
 *
 * In: a prompt or messages, by `send`. Out: text, reasoning and tool calls so far; a component is
 * rendered at most once a frame. Held: one answer; it is cancelled when the component is unmounted.
 */

"use client"; // not for React on servers

import { useEffect, useState, useSyncExternalStore } from "react";
import { AnswerStore } from "./store.js";

/**
 * @typedef {import("./store.js").AnswerState} AnswerState
 * @typedef {import("./store.js").Asking} Asking
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 */

/**
 * An answer of a bridge, as state of this component.
 * @param {string | URL} url  The bridge's WebSocket.
 * @param {AnswerOptions} [options]  As for `connect`; the options of `send` overrule them.
 * @returns {AnswerState & import("./store.js").Asking}
 */
export function useAnswer(url, options = {}) {
  const [store] = useState(() => new AnswerStore());
  const state = useSyncExternalStore(store.subscribe, store.read, store.read);
  useEffect(() => {
    store.url = url;
    store.options = options;
  });
  useEffect(() => store.stop, [store]);
  return { ...state, send: store.send, stop: store.stop };
}
