// A worker in whose place a test answers.

import { shutDown } from "../../web/src/decoder.js";
import { answerCalls } from "../../web/src/messages.js";

/**
 * Give every worker that starts in a test these methods; it boots at once if they do not say how.
 * @param {import("node:test").TestContext} t
 * @param {(port: MessagePort) => Record<string, (...args: any[]) => any>} methods
 * @returns {unknown[]}  The workers that are ended.
 */
export function standIn(t, methods) {
  const ended = [];
  globalThis.Worker = class {
    constructor() {
      const { port1, port2 } = new MessageChannel();
      answerCalls(port2, { boot: () => ({}), ...methods(port2) });
      const terminate = () => {
        ended.push(this);
        port2.close();
      };
      return Object.assign(port1, { terminate });
    }
  };
  t.after(() => {
    shutDown();
    delete globalThis.Worker;
  });
  return ended;
}
