/**
 * `fetch` for llama-server, whose answers survive lost connections, without a bridge.
 *
 * In: a request for an answer, as for `fetch`. Out: its response, whose body goes on where the
 * connection was lost. Held: the count of the bytes that have come. With `X-Conversation-Id`
 * llama-server keeps the bytes of an answer (llama.cpp's pull request 23226): `GET
 * /v1/stream?conv_id=…&from=N` gives them from N on, then what still comes; DELETE stops it. After
 * a 404 the older route `/v1/stream/<id>` is tried.
 */

import { BACK } from "./back.js";
import { DetokError, asDetokError } from "./decoder.js";

const HEADER = "X-Conversation-Id";
const ANSWERS = /^(.*?)(\/v1)?\/(chat\/completions|completions?|responses|messages|infill)$/;
/** Milliseconds to wait before each retry since the last byte. */
const PAUSES = [0, 250, 500, 1000, 2000, 4000, 8000, 8000, 8000];
/** The most retries before the first byte if all fail within AT_ONCE_MS: no server is there. */
const FIRST_TRIES = 3;
const AT_ONCE_MS = 2000;
/** The last event of OpenAI's routes. */
const DONE = "data: [DONE]\n\n";

/**
 * Like `fetch`. The routes of llama-server that answer go on after a lost connection; other
 * requests are left alone. Leaving the body, or aborting its signal, stops the engine.
 *
 * A GET with the header `X-Conversation-Id` of an earlier request reads that answer again from its
 * beginning, for a page that was loaded again.
 * @example
 * const response = resumingFetch("/v1/chat/completions", { method: "POST", headers, body });
 * for await (const { text } of readAnswer(response)) bubble.append(text);
 * @param {RequestInfo | URL} input
 * @param {RequestInit} [init]
 * @returns {Promise<Response>}
 */
export async function resumingFetch(input, init) {
  const request = new Request(input, init);
  const { pathname } = new URL(request.url);
  const again = request.method === "GET" && request.headers.has(HEADER);
  const prefix = again || request.method === "POST" ? ANSWERS.exec(pathname)?.[1] : undefined;
  if (prefix === undefined) return fetch(request);
  return new KeptAnswer(request, new URL(`${prefix}/v1/stream`, request.url).href).open(again);
}

/** An answer that llama-server keeps. */
class KeptAnswer {
  /** How many bytes have come. */
  #came = 0;
  /** The last of them, as text. */
  #tail = "";
  /** Retries since the last byte. */
  #tries = 0;
  /** Whether the id is in the path, as in the older route. */
  #inPath = false;
  #ended = new AbortController();

  /** @param {Request} request @param {string} address */
  constructor(request, address) {
    const { headers } = request;
    // crypto.randomUUID exists in secure contexts only.
    if (!headers.has(HEADER))
      headers.set(HEADER, Array.from(crypto.getRandomValues(new Uint32Array(4)), hex).join(""));
    this.id = encodeURIComponent(headers.get(HEADER) ?? "");
    this.request = request;
    this.address = address;
  }

  /** @param {boolean} again  Whether the server has the answer already. */
  async open(again) {
    this.request.signal.addEventListener("abort", this.#stop);
    try {
      const response = await this.#first(again);
      const { status, statusText, headers, body } = response;
      if (body && isEvents(response))
        return new Response(this.#resumed(body), { status, statusText, headers });
      this.#end();
      return response;
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  /** @param {boolean} again */
  async #first(again) {
    const began = performance.now();
    for (;;) {
      try {
        // If the connection was lost before its first byte, the server may have begun the answer.
        if (again || this.#tries) {
          const kept = await this.#ask("GET");
          if (isEvents(kept) || again) return kept;
          await kept.body?.cancel();
          // It may be a proxy's word, which does not tell whether the server has begun. 501 is the
          // word of a server without such a route.
          if (kept.status >= 500 && kept.status !== 501) throw unknownYet(kept.status);
        }
        return await fetch(this.request.clone());
      } catch (error) {
        const isThere = error instanceof DetokError;
        const atOnce = !isThere && performance.now() - began < AT_ONCE_MS;
        const most = atOnce ? FIRST_TRIES : PAUSES.length;
        if (this.request.signal.aborted || this.#tries >= most) throw error;
      }
      await this.#pause();
    }
  }

  /** @param {ReadableStream<Uint8Array>} body @returns {ReadableStream<Uint8Array>} */
  #resumed(body) {
    let reader = body.getReader();
    const bytes = async () => {
      for (let asked = false; ; asked = true) {
        const part = await reader
          .read()
          .catch((error) => ({ error, done: false, value: undefined }));
        if (part.value) return this.#count(part.value);
        this.request.signal.throwIfAborted();
        if (this.#tail === DONE || this.#ended.signal.aborted) return undefined;
        const error = "error" in part ? part.error : undefined;
        // A lost connection may look like an end; at the end the server has no more bytes.
        if (asked && !error) return undefined;
        const more = await this.#reopened(error);
        if (!more) return undefined;
        reader = more;
        if (this.#ended.signal.aborted) await reader.cancel().catch(() => {});
      }
    };
    return new ReadableStream(
      {
        pull: async (controller) => {
          const some = await bytes().catch((error) => {
            this.#end();
            throw error;
          });
          if (some) return controller.enqueue(some);
          this.#end();
          controller.close();
        },
        cancel: async (reason) => {
          this.#stop();
          await reader.cancel(reason).catch(() => {});
        },
      },
      { highWaterMark: 0 },
    );
  }

  /** @param {Uint8Array} bytes */
  #count(bytes) {
    this.#came += bytes.length;
    this.#tries = 0;
    this.#tail += String.fromCharCode(...bytes.subarray(-DONE.length));
    this.#tail = this.#tail.slice(-DONE.length);
    return bytes;
  }

  /**
   * The rest of the body; undefined if there is none.
   * @param {unknown} lost  The error that ended the body; undefined if it just ended.
   */
  async #reopened(lost) {
    /** @type {number | undefined} */
    let status;
    while (this.#tries < PAUSES.length && !(status && status < 500 && status !== 429)) {
      await this.#pause();
      this.request.signal.throwIfAborted();
      if (this.#ended.signal.aborted) return undefined;
      const response = await this.#ask("GET").catch(() => undefined);
      if (response?.body && isEvents(response)) return response.body.getReader();
      await response?.body?.cancel();
      status = response?.status;
    }
    if (lost) throw connectionLost(lost, status);
    return undefined; // the body may have been whole: the reader of the answer sees that
  }

  /** @param {"GET" | "DELETE"} method @param {RequestInit} [init] */
  async #ask(method, init = { signal: this.request.signal }) {
    const { credentials, mode } = this.request;
    const headers = new Headers(this.request.headers);
    headers.delete("content-type");
    headers.delete(HEADER);
    const ask = () => {
      const at = this.#inPath ? `/${this.id}?` : `?conv_id=${this.id}&`;
      const address = `${this.address}${at}from=${this.#came}`;
      return fetch(address, { method, headers, credentials, mode, cache: "no-store", ...init });
    };
    const response = await ask();
    if (response.status !== 404) return response;
    this.#inPath = !this.#inPath;
    await response.body?.cancel();
    return ask();
  }

  /** Wait until the next try, or until the page or the network is back. */
  #pause() {
    const over = new AbortController();
    const { signal } = over;
    return new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
      const go = () => {
        clearTimeout(timer);
        over.abort();
        resolve();
      };
      const timer = setTimeout(go, PAUSES[this.#tries++]);
      const wake = () => globalThis.document?.hidden || go();
      for (const type of BACK) globalThis.addEventListener?.(type, wake, { signal });
      this.#ended.signal.addEventListener("abort", go, { signal });
    });
  }

  /** End the answer, here and on the server. */
  #stop = () => {
    if (this.#ended.signal.aborted) return;
    this.#end();
    this.#ask("DELETE", { keepalive: true }).catch(() => {});
  };

  #end() {
    this.#ended.abort();
    this.request.signal.removeEventListener("abort", this.#stop);
  }
}

/** Whether a response is an answer, and not a page or a refusal. @param {Response} response */
const isEvents = ({ ok, headers }) =>
  ok && headers.get("content-type")?.startsWith("text/event-stream");

const hex = (/** @type {number} */ word) => word.toString(16).padStart(8, "0");

/** @param {number} code */
const unknownYet = (code) =>
  new DetokError(`The server answered HTTP ${code}, and may have begun the answer; ask again.`, {
    code,
    retry: true,
  });

/** @param {unknown} cause @param {number} [code] */
function connectionLost(cause, code) {
  const { message } = asDetokError(cause);
  return new DetokError(
    code
      ? `The connection was lost (${message}), and the server does not have the rest of the answer (HTTP ${code}); ask again.`
      : `The connection was lost (${message}), and the server cannot be reached; ask again.`,
    { kind: "network", code, retry: true, cause },
  );
}
