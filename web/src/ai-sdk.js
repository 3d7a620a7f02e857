/**
 * A chat transport for Vercel's AI SDK: `useChat({ transport: new DetokTransport("/stream") })`.
 *
 * In: the messages of a chat. Out: the SDK's message chunks: text, reasoning and tool calls as
 * parts, a finish with its reason, an error with a sentence. In a format, the inputs of calls come
 * as the model writes them. With `resume: true`, an answer continues after a reload. Only the types
 * of the package `ai` are used.
 */

import { Answer } from "./connect.js";
import { DetokError } from "./decoder.js";
import { argumentsOf, readToolCalls, turnsOf } from "./tool-calls.js";

/**
 * @typedef {import("ai").UIMessageChunk} Chunk  A part of a message, as the SDK takes it.
 *
 * @typedef {object} StorageOption  Where a page remembers its answer across a reload.
 * @property {Pick<Storage, "getItem" | "setItem" | "removeItem">} [storage]  Which answer a chat
 *   waits for is kept here. Default: sessionStorage.
 *
 * @typedef
 *   {Omit<import("./connect.js").AnswerOptions, "prompt" | "messages" | "resume" | "signal"> &
 *   StorageOption}
 *   TransportOptions  What `connect` takes, and where to remember.
 */

/**
 * @template {import("ai").UIMessage} UI_MESSAGE
 * @typedef {import("ai").ChatTransport<UI_MESSAGE>} Transport  What `useChat` asks of a transport.
 */

/**
 * @template {import("ai").UIMessage} [UI_MESSAGE=import("ai").UIMessage]
 * @implements {Transport<UI_MESSAGE>}
 */
export class DetokTransport {
  /**
   * @param {string | URL} url  The bridge's WebSocket.
   * @param {TransportOptions} [options]  A request's `body` is added to `params`.
   */
  constructor(url, { storage, ...options } = {}) {
    this.#url = url;
    this.#options = options;
    this.#storage = storage;
  }

  #url;
  #options;
  #storage;

  /** A resumed answer comes again from its beginning. */
  resumeStreamIsReplay = true;

  /**
   * @param {Parameters<import("ai").ChatTransport<UI_MESSAGE>["sendMessages"]>[0]} request
   * @returns {Promise<ReadableStream<Chunk>>}
   */
  async sendMessages({ chatId, messages, abortSignal, body }) {
    const plain = messages.flatMap((message) => plainMessages(message, this.#options.tools));
    return chunkStream(
      this.#ask(chatId, {
        messages: plain,
        params: { ...this.#options.params, ...body },
        signal: abortSignal,
      }),
    );
  }

  /**
   * @param {Parameters<import("ai").ChatTransport<UI_MESSAGE>["reconnectToStream"]>[0]} request
   * @returns {Promise<ReadableStream<Chunk> | null>}  Null if there is nothing to resume.
   */
  async reconnectToStream({ chatId, abortSignal }) {
    const resume = this.#runs?.getItem(runKey(chatId));
    if (!resume) return null;
    const answer = this.#ask(chatId, { resume, signal: abortSignal });
    await new Promise((resolve) => {
      answer.addEventListener("start", resolve, { once: true });
      answer.finished.then(resolve);
    });
    if (!answer.done) return chunkStream(answer);
    const { error } = await answer.finished;
    return error?.code === 4410 ? null : chunkStream(answer);
  }

  /** @param {string} chatId @param {import("./connect.js").AnswerRequest} request */
  #ask(chatId, request) {
    // Kept before anything is sent: a reload at any moment after that finds the answer.
    const run = request.resume ?? newId();
    try {
      this.#runs?.setItem(runKey(chatId), run);
    } catch {
      // The storage is full, so this answer cannot be resumed after a reload.
    }
    const answer = new Answer(this.#url, {
      ...this.#options,
      ...request,
      ...(request.resume ? {} : { id: run }),
    });
    answer.finished.then(({ error }) => {
      if (error?.code === 4499) return; // another connection reads the same answer, and needs it
      // A later answer of the same chat may have replaced it.
      if (this.#runs?.getItem(runKey(chatId)) === run) this.#runs?.removeItem(runKey(chatId));
    });
    return answer;
  }

  get #runs() {
    try {
      return this.#storage ?? globalThis.sessionStorage;
    } catch {
      return undefined; // a page may be forbidden to store
    }
  }
}

/** A run id that nobody can guess. */
const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

/** @param {string} chatId */
function runKey(chatId) {
  return `detok.run.${chatId}`;
}

/**
 * A message as the engine's template takes it: text, calls and their results, no reasoning.
 * @param {import("ai").UIMessage} message
 * @param {import("./detok-stream.js").TextOptions["tools"]} tools
 * @returns {import("./connect.js").Message[]}
 */
function plainMessages({ role, parts }, tools) {
  const turns = turnsOf(role, tools);
  for (const part of parts) {
    if (part.type === "text") turns.say(part.text);
    else if (part.type === "step-start") turns.step();
    else if (part.type === "file")
      throw new DetokError(
        `A bridge takes text only, and this message has a file (${part.mediaType}); send it without.`,
      );
    else if ("toolCallId" in part) {
      const name = part.type === "dynamic-tool" ? part.toolName : part.type.slice("tool-".length);
      const { toolCallId: id, input, state } = part;
      let result;
      if (state === "output-available") result = part.output ?? null;
      else if (state === "output-error") result = { error: part.errorText };
      turns.call({ id, name, input, result });
    }
  }
  return turns.end();
}

/** @param {import("./connect.js").Answer} answer @returns {ReadableStream<Chunk>} */
function chunkStream(answer) {
  const from = chunks(answer);
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await from.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel() {
      answer.cancel();
    },
  });
}

/** @type {Partial<Record<import("./connect.js").Finish["reason"], import("ai").FinishReason>>} */
const REASONS = { eos: "stop", stop: "stop", length: "length" };

/** An id that no other call has; randomUUID needs https. @param {number} number */
const newCallId = (number) => `call-${number}-${Math.random().toString(36).slice(2)}`;

/** What is said of a call that cannot be read. @param {string} input */
const unreadable = (input) => ({
  input,
  dynamic: true,
  errorText: "The model wrote a tool call that cannot be read.",
});

/** @param {import("./connect.js").Answer} answer @returns {AsyncGenerator<Chunk, void, void>} */
async function* chunks(answer) {
  yield { type: "start" };
  yield { type: "start-step" };
  let parts = 0;
  let calls = 0;
  /**
   * The open part; `text` is not given yet.
   * @type {{channel: string, id: string, text: string, begun: boolean} | undefined}
   */
  let open;
  /** @returns {Generator<Chunk>} */
  function* close() {
    if (open?.channel === "tool_call") {
      for (const { name, arguments: input, text } of readToolCalls(open.text)) {
        const its = { toolCallId: newCallId(++calls), toolName: name ?? "unknown" };
        if (name === undefined) yield { type: "tool-input-error", ...its, ...unreadable(text) };
        else yield { type: "tool-input-available", ...its, input, dynamic: true };
      }
    } else if (open?.begun)
      yield { type: open.channel === "reasoning" ? "reasoning-end" : "text-end", id: open.id };
    open = undefined;
  }
  /** The call that comes in a format. @type {{toolCallId: string, toolName: string} | undefined} */
  let coming;
  let json = "";
  /**
   * More of a call in a format.
   * @param {string | undefined} name
   * @param {string} text
   * @param {boolean} [complete]
   * @returns {Generator<Chunk>}
   */
  function* input(name, text, complete) {
    if (name !== undefined) {
      yield* cutShort();
      json = "";
      coming = { toolCallId: newCallId(++calls), toolName: name };
      yield { type: "tool-input-start", ...coming, dynamic: true };
    }
    if (!coming) return;
    json += text;
    const { toolCallId } = coming;
    if (text) yield { type: "tool-input-delta", toolCallId, inputTextDelta: text };
    if (!complete) return;
    const given = argumentsOf(json, complete);
    if ("arguments" in given)
      yield { type: "tool-input-available", ...coming, input: given.arguments, dynamic: true };
    else yield { type: "tool-input-error", ...coming, ...unreadable(json) };
    coming = undefined;
  }
  /** A call that was not complete. @returns {Generator<Chunk>} */
  function* cutShort() {
    if (coming) yield { type: "tool-input-error", ...coming, ...unreadable(json) };
    coming = undefined;
  }
  try {
    for await (const { channel, text, call, name, complete } of answer) {
      if (open?.channel !== channel || call !== undefined) {
        yield* close();
        open = { channel, id: `part-${++parts}`, text: "", begun: false };
      }
      if (call !== undefined) {
        yield* input(name, text, complete);
        continue;
      }
      open.text += text;
      // A tool call is read when it is whole; white space between two calls is no part.
      if (channel === "tool_call" || !(open.begun || open.text.trim())) continue;
      const kind = channel === "reasoning" ? "reasoning" : "text";
      if (!open.begun) yield { type: `${kind}-start`, id: open.id };
      yield { type: `${kind}-delta`, id: open.id, delta: open.text };
      open.begun = true;
      open.text = "";
    }
  } catch {
    // `finished` says why
  }
  yield* close();
  const { reason, error } = await answer.finished;
  if (reason !== "cancelled") yield* cutShort();
  if (reason === "cancelled") yield { type: "abort" };
  else if (error) yield { type: "error", errorText: error.message };
  else {
    yield { type: "finish-step" };
    const finishReason = calls && reason !== "length" ? "tool-calls" : (REASONS[reason] ?? "other");
    yield { type: "finish", finishReason };
  }
}
