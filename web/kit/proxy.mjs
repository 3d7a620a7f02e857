// The chaos proxy in Node: between a chat UI and its engine, it cuts streams at unusual places and
// changes nothing else.
//
// In: HTTP/1.1, from a browser whose HTTP proxy it is, or from a UI that takes it for the engine.
// Out: the same answers in other pieces, and their text. traffic.py, recut.py and messages.py
// decide what is cut, and where.

import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import { pipeline } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { urlToHttpOptions } from "node:url";
import zlib from "node:zlib";
import { attempt } from "./python.mjs";

const HOP_BY_HOP =
  /^(connection|expect|keep-alive|proxy-authenticate|proxy-authorization|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;
const NO_UPSTREAM =
  "This is a proxy without an upstream: start it with --upstream URL, or set it as the browser's HTTP proxy.";
const UPSTREAM = Symbol("upstream");

/**
 * The headers of a message, in their order; `change` returns a new value, or undefined to drop one.
 */
const headersOf = ({ rawHeaders }, change) =>
  rawHeaders.flatMap((name, i) => {
    const value = i % 2 ? undefined : change(name.toLowerCase(), rawHeaders[i + 1]);
    return value === undefined ? [] : [[name, value]];
  });

export class ChaosProxy {
  #python;
  #servers = new Map();
  #sockets = new Set();

  /**
   * playwright.d.ts explains the options and methods.
   * @param {any} python  The interpreter of python.mjs.
   */
  constructor(python, { split = "every-byte", delay = 3, only, websocket = "fragments" } = {}) {
    this.#python = python;
    this.traffic = attempt(() =>
      python.globals.get("traffic").Traffic(split, delay / 1000, only, websocket),
    );
    this.delay = delay;
  }

  get sentText() {
    return this.traffic.sent_text;
  }

  async url(address) {
    const origin = attempt(() => this.#python.globals.get("traffic").origin_of(address));
    return (await this.listen(origin)) + address.slice(origin.length);
  }

  async listen(upstream, port = 0) {
    this.traffic.used ||= upstream !== undefined; // a browser's proxy is used when something passes
    if (!this.#servers.has(upstream)) {
      const server = http.createServer({ requestTimeout: 0, keepAliveTimeout: 60_000 });
      server.on("connection", (socket) => {
        socket[UPSTREAM] ??= upstream;
        this.#keep(socket.on("error", () => {}));
      });
      server.on("request", (request, response) => {
        this.#exchange(request, response).catch((error) => {
          const broken = `A connection broke the rules of HTTP/1.1: ${error.message}.`;
          if (error.name === "ProxyError") this.traffic.problems.append(error.message);
          else if (!response.destroyed) this.traffic.problems.append(broken); // the client has not left
          response.destroy();
        });
      });
      server.on("upgrade", (request, socket, head) => {
        socket.unshift(head);
        this.#request(request, socket).then((found) => {
          if (typeof found === "string") this.traffic.problems.append(found);
        });
      });
      server.on("connect", (request, socket, head) => {
        this.#tunnel(server, request, socket, head).catch(() => socket.destroy());
      });
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
      this.#servers.set(upstream, server);
    }
    return `http://127.0.0.1:${this.#servers.get(upstream).address().port}`;
  }

  async close() {
    for (const server of this.#servers.values()) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Keep a socket to close it with the proxy, until it is closed. */
  #keep(socket) {
    this.#sockets.add(socket.on("close", () => this.#sockets.delete(socket)));
  }

  /** Answer CONNECT. Browsers also send it for a WebSocket without TLS. TLS passes unread. */
  async #tunnel(server, request, socket, head) {
    socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
    const [first] = head.length ? [head] : await once(socket, "data");
    socket.pause();
    socket.unshift(first);
    if (/^[A-Za-z]/.test(first.toString("latin1"))) {
      socket[UPSTREAM] = `http://${request.url}`;
      return void (server.emit("connection", socket), socket.resume());
    }
    this.traffic.blind.add(request.url);
    const { hostname, port = 443 } = urlToHttpOptions(new URL(`https://${request.url}`));
    const far = net.connect(port, hostname);
    this.#keep(far.on("error", () => socket.destroy()).on("close", () => socket.destroy()));
    socket.on("close", () => far.destroy());
    socket.pipe(far).pipe(socket);
  }

  /**
   * Send a request on to its server. Returns the answer; or a sentence why there is none; or
   * undefined if the protocol changes or the client has left.
   */
  async #request(request, socket, body) {
    if (socket.destroyed) return undefined;
    const origin = /^https?:\/\/[^/?#]*/i.exec(request.url)?.[0] ?? request.socket[UPSTREAM];
    if (!origin) return NO_UPSTREAM;
    const path = request.url.replace(origin, "") || "/";
    const theirs = origin.replace(/^https?:\/\//, "");
    const headers = headersOf(request, (name, value) => {
      // Compressed WebSocket messages could not be cut.
      if (HOP_BY_HOP.test(name) || name === "sec-websocket-extensions") return undefined;
      if (name === "accept-encoding") return value.includes("gzip") ? "gzip" : "identity";
      if (name === "host") return theirs;
      const own = /^(origin|referer)$/.test(name) && `//${request.headers.host}`;
      return own ? value.replace(own, `//${theirs}`) : value;
    });
    if (/chunked/i.test(request.headers["transfer-encoding"] ?? ""))
      headers.push(["Content-Length", String(body.length)]);
    if (!body) headers.push(["Connection", "Upgrade"], ["Upgrade", "websocket"]);
    const to = { ...urlToHttpOptions(new URL(origin)), path, setHost: false };
    const transport = to.protocol === "https:" ? https : http;
    const asked = transport.request({ ...to, method: request.method, headers: headers.flat() });
    socket.on("close", () => asked.destroy());
    try {
      asked.end(body);
      const answer = await new Promise((resolve, reject) => {
        asked.on("response", resolve).on("error", reject);
        asked.on("upgrade", (changed, far, head) =>
          resolve(this.#websocket(origin + path, changed, far, head, socket)),
        );
      });
      if (!body && answer) socket.destroy(); // the server refused to change the protocol
      return answer && { answer, url: origin + path, theirs };
    } catch (error) {
      if (socket.destroyed) return undefined;
      // The server may have closed a connection that was kept alive.
      if (asked.reusedSocket && error.code === "ECONNRESET")
        return this.#request(request, socket, body);
      if (!body) socket.destroy();
      if (error.type === "ProxyError") return /ProxyError: (.*)/.exec(error.message)[1];
      if (/^HPE_/.test(error.code))
        return `${origin} does not answer in HTTP/1.1: ${error.message}.`;
      if (error.syscall !== "connect") return `${origin} closed the connection without an answer.`;
      return `${origin} cannot be reached: ${error.code}. Is it running?`;
    }
  }

  async #exchange(request, response) {
    const body = Buffer.concat(await request.toArray());
    const found = await this.#request(request, response, body);
    if (!found) return;
    if (typeof found === "string") {
      this.traffic.problems.append(found);
      const status = request.socket[UPSTREAM] || request.url.startsWith("http") ? 502 : 400;
      response.writeHead(status, { "content-length": found.length + 1, connection: "close" });
      return void response.end(`${found}\n`);
    }
    const { answer, url, theirs } = found;
    const { "content-type": kind = "" } = answer.headers;
    this.traffic.note_status(url, answer.statusCode, this.#python.toPy(request.headers));
    const isLeft = request.method === "HEAD" || answer.statusCode !== 200;
    const both = [request.headers, answer.headers].map((headers) => this.#python.toPy(headers));
    const cuts = !isLeft && this.traffic.is_stream(url, ...both);
    const record = cuts ? this.traffic.begin(url, kind, body.toString()) : undefined;
    const packed = record && /gzip|deflate/i.exec(answer.headers["content-encoding"] ?? "")?.[0];
    const headers = headersOf(answer, (name, value) => {
      if (HOP_BY_HOP.test(name) || (packed && name === "content-length")) return undefined;
      // A server may have passed on the number of its engine's answer.
      if (record && name === "detok-stream") return undefined;
      if (name !== "location") return value;
      return value.replace(`//${theirs}`, `//${request.headers.host}`);
    });
    for (const header of record ? this.traffic.headers(record) : []) headers.push([...header]);
    response.writeHead(answer.statusCode, answer.statusMessage, headers.flat());
    // The browser must be able to unpack each piece when it arrives.
    const flush = zlib.constants.Z_SYNC_FLUSH;
    const pack = packed && zlib[/gzip/i.test(packed) ? "createGzip" : "createDeflate"]({ flush });
    const out = pack || response;
    pack?.pipe(response);
    // Unlike `pipe`, `pipeline` also ends if the server has broken off.
    for await (const data of packed ? pipeline(answer, zlib.createUnzip(), () => {}) : answer)
      await (record ? this.#cut(record.cut, data, out) : response.write(data));
    out.end();
    record?.sent.flush();
    if (record) record.finished = true;
  }

  /** Write some bytes in the pieces, and with the pauses, that Python gives. */
  async #cut(cut, data, out) {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.length);
    for (const [piece, pause] of this.#python.globals.get("pieces")(cut, bytes)) {
      if (!out.write(piece)) await Promise.race([once(out, "drain"), once(out, "close")]);
      await (pause && this.delay ? sleep(this.delay) : new Promise(setImmediate));
      if (out.destroyed) break;
    }
  }

  /** Cut the messages of the server; those of the browser pass unchanged. */
  async #websocket(url, answer, far, head, socket) {
    const lines = headersOf(answer, (name, value) => value).map((pair) => pair.join(": "));
    const begin = [`HTTP/1.1 101 ${answer.statusMessage}`, ...lines, "", ""];
    socket.write(begin.join("\r\n"));
    this.#keep(far.on("error", () => socket.destroy()).on("close", () => socket.end()));
    socket.on("close", () => far.destroy());
    const record = this.traffic.begin(url, "websocket");
    const { receive, hear } = this.#python.globals.get("messages").Messages(this.traffic, record);
    const heard = this.#python.globals.get("heard");
    socket.on("data", (data) => heard(hear, new Uint8Array(data)));
    socket.pipe(far);
    far.unshift(head);
    for await (const data of far) await this.#cut(receive, data, socket);
    record.finished = true;
  }
}
