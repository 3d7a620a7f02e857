// A server that keeps answers as llama-server does, and a proxy that cuts connections at any byte.

import { createServer } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";

/** @param {import("node:net").Server} server @returns {Promise<number>} */
const listen = (server) =>
  new Promise((resolve) =>
    server.listen(0, "127.0.0.1", () =>
      resolve(/** @type {import("node:net").AddressInfo} */ (server.address()).port),
    ),
  );

/**
 * A server that keeps answers as llama-server does: with `X-Conversation-Id` the answer goes on
 * where its client is gone, `GET /v1/stream` gives its bytes from an offset on, and DELETE ends it.
 * `inPath` is the first form of the address, `keeps: false` a server that keeps nothing.
 * @param {Uint8Array[]} chunks  The answer.
 * @param {{inPath?: boolean, keeps?: boolean, forgets?: number, ends?: boolean}} [options]
 *   `forgets`: so many of the first bytes are dropped, as beyond 4 MiB. `ends`: false for an answer
 *   whose end never comes.
 */
export async function keeping(
  chunks,
  { inPath = false, keeps = true, forgets = 0, ends = true } = {},
) {
  const whole = Buffer.concat(chunks);
  /** @type {Set<string>} */
  const kept = new Set();
  /** @type {string[]} */
  const asked = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://x");
    asked.push(`${request.method} ${pathname}`);
    /** @param {number} status @param {string} [message] */
    const say = (status, message = "") => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(message && JSON.stringify({ error: { message, code: status } }));
    };
    /** @param {number} from */
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
  const port = await listen(server);
  return { port, asked, kept, whole, close: () => server.close() && server.closeAllConnections() };
}

/**
 * A proxy whose next connections are cut: [direction, bytes that pass, "close" or "reset"].
 * @param {number} port
 * @param {(["up" | "down", number, "close" | "reset"] | undefined)[]} cuts
 */
export async function cutting(port, cuts) {
  const sockets = new Set();
  const left = [...cuts];
  const server = createTcpServer((near) => {
    const cut = left.shift();
    const far = connect(port, "127.0.0.1");
    const end = () => {
      if (cut?.[2] === "reset") near.resetAndDestroy();
      else near.destroy();
      far.destroy();
    };
    for (const [from, to, way] of /** @type {const} */ ([
      [near, far, "up"],
      [far, near, "down"],
    ])) {
      sockets.add(from);
      let rest = cut?.[0] === way ? cut[1] : Infinity;
      if (!rest) return end();
      from.on("data", (/** @type {Buffer} */ part) => {
        const passes = part.subarray(0, rest);
        rest -= passes.length;
        to.write(passes, () => rest || end());
      });
      from.on("end", () => to.end());
      from.on("error", () => to.destroy());
    }
  });
  return {
    port: await listen(server),
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
