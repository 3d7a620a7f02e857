/**
 * `fetch` and `WebSocket` as pages have them; the build for servers puts them in the place of the
 * globals.
 */

import { readFile } from "node:fs/promises";

/**
 * `fetch` that also reads files: Node's own takes no `file:` URL.
 * @param {string | URL | Request} address
 * @param {RequestInit} [options]
 */
async function fetchFile(address, options) {
  const url = new URL(address instanceof Request ? address.url : address);
  if (url.protocol !== "file:") return globalThis.fetch(address, options);
  return new Response(options?.method === "HEAD" ? null : await readFile(url));
}

/**
 * A WebSocket that calls `onclose` with 1006 also if it cannot connect: Node 20 fires only `error`
 * then, and Deno gives code 0.
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
  socket.addEventListener("error", () => setTimeout(() => close(1006, ""))); // after a close event
  return Object.defineProperty(socket, "onclose", {
    set(given) {
      listener = given;
    },
  });
}
ClosingSocket.OPEN = 1;

export { ClosingSocket as WebSocket, fetchFile as fetch };
