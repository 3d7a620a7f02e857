// A server that keeps answers as llama-server does, and a proxy that cuts connections at any byte.

import { createServer } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";

/** @param {import("node:net").Server} server @returns {Promise<number>} */
const listen = (server) =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));

/**
 * Answer requests until the test ends.
 * @param {import("node:test").TestContext} t
 * @param {import("node:http").RequestListener} answer
 * @returns {Promise<string>}  The server's address.
 */
export async function serving(t, answer) {
  const server = createServer(answer);
  t.after(() => server.close().closeAllConnections());
  return `http://127.0.0.1:${await listen(server)}`;
}

/**
 * Until the test ends, keep answers as llama-server does: with `X-Conversation-Id` the answer goes
 * on where its client is gone, `GET /v1/stream` gives its bytes from an offset on, and DELETE ends
 * it.
 * `inPath` is the first form of the address, `keeps: false` a server that keeps nothing.
 * @param {import("node:test").TestContext} t
 * @param {Uint8Array[]} chunks  The answer.
 * @param {{inPath?: boolean, keeps?: boolean, forgets?: number, ends?: boolean}} [options]
 *   `forgets`: so many of the first bytes are dropped, as beyond 4 MiB. `ends`: false for an answer
 *   whose end never comes.
 */
export async function keeping(
  t,
  chunks,
  { inPath = false, keeps = true, forgets = 0, ends = true } = {},
) {
  const kept = new Set();
  const asked = [];
  const address = await serving(t, (request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://x");
    asked.push(`${request.method} ${pathname}`);
    const say = (status, message = "") => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(message && JSON.stringify({ error: { message, code: status } }));
    };
    const stream = (from) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
      let at = 0;
      for (const chunk of chunks) {
        if (at + chunk.length > from) response.write(chunk.subarray(Math.max(0, from - at)));
        at += chunk.length;
      }
      if (ends) response.end();
    };
    const body = [];
    request.on("data", (part) => body.push(part));
    request.on("end", () => {
      const name = String(request.headers["x-conversation-id"] ?? "");
      if (request.method === "POST" && pathname === "/v1/chat/completions") {
        JSON.parse(Buffer.concat(body).toString());
        if (keeps && name) kept.add(name);
        return stream(0);
      }
      const [, inside] = /^\/v1\/stream\/(.+)$/.exec(pathname) ?? [];
      const id = inPath ? inside : pathname === "/v1/stream" ? searchParams.get("conv_id") : null;
      if (request.method === "DELETE" && id) {
        kept.delete(id);
        return say(204);
      }
      if (request.method !== "GET" || !id || !kept.has(id)) return say(404, "File Not Found");
      const from = Number(searchParams.get("from"));
      if (from < forgets) return say(400, "Stream offset lost, please restart");
      return stream(from);
    });
  });
  return { address, asked, kept };
}

/**
 * A proxy whose next connections are cut: [direction, bytes that pass, "close" or "reset"].
 * @param {string} address  Of the server.
 * @param {["up" | "down", number, "close" | "reset"][]} cuts
 */
export async function cutting(address, cuts) {
  const sockets = new Set();
  const left = [...cuts];
  const server = createTcpServer((near) => {
    const cut = left.shift();
    const far = connect(new URL(address).port, "127.0.0.1");
    const end = () => {
      if (cut?.[2] === "reset") near.resetAndDestroy();
      else near.destroy();
      far.destroy();
    };
    for (const [from, to, way] of [
      [near, far, "up"],
      [far, near, "down"],
    ]) {
      sockets.add(from);
      let rest = cut?.[0] === way ? cut[1] : Infinity;
      if (!rest) return end();
      from.on("data", (part) => {
        const passes = part.subarray(0, rest);
        rest -= passes.length;
        to.write(passes, () => rest || end());
      });
      from.on("end", () => to.end());
      from.on("error", () => to.destroy());
    }
  });
  return {
    address: `http://127.0.0.1:${await listen(server)}`,
    /** Whether all cuts were made. */
    get done() {
      return !left.length;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
