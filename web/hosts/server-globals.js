/**
 * What pages have and servers have otherwise; the server's build puts these in the place of the
 * globals.
 */

import { readFile } from "node:fs/promises";

/**
 * fetch, for files as well: Node's own takes no `file:` address.
 * @param {string | URL} address
 * @param {RequestInit} [options]
 */
async function fetchFile(address, options) {
  const url = new URL(address);
  if (url.protocol !== "file:") return globalThis.fetch(url, options);
  return new Response(options?.method === "HEAD" ? null : await readFile(url));
}

/**
 * A WebSocket whose `onclose` is called, with 1006, also where a connection could not be made: Node
 * 20 tells only of an error then, and Deno of the code 0.
 * @param {string} url
 * @param {string[]} protocols
 */
function ClosingSocket(url, protocols) {
  const socket = new globalThis.WebSocket(url, protocols);
  let listener = (/** @type {{code: number, reason: string}} */ event) => {};
  let closed = false;
  const close = (/** @type {number} */ code, /** @type {string} */ reason) => {
    if (!closed) listener({ code, reason });
    closed = true;
  };
  socket.addEventListener("close", ({ code, reason }) => close(code || 1006, reason));
  socket.addEventListener("error", () => setTimeout(() => close(1006, ""))); // a close event is sooner
  return Object.defineProperty(socket, "onclose", {
    set(given) {
      listener = given;
    },
  });
}
ClosingSocket.OPEN = 1;

export { ClosingSocket as WebSocket, fetchFile as fetch };
