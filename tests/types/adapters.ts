// What a TypeScript user writes with the adapters, checked against the real packages by tsc --strict. Never run.

import { useChat } from "@ai-sdk/react";
import type { ChatTransport, UIMessage } from "ai";
import { DetokTransport } from "../../web/src/ai-sdk.js";
import type { Capture } from "../../web/src/capture.js";
import type { HelloEvent } from "../../web/src/connect.js";
import { createDecoder } from "../../web/src/create-decoder.js";
import { DetokStream, type StreamOptions, type TextOptions } from "../../web/src/detok-stream.js";
import { define, type DetokText } from "../../web/src/element.js";
import { readAnswer } from "../../web/src/fetch.js";
import { useAnswer } from "../../web/src/react.js";

type Message = UIMessage<{ tokens: number }>;

const plain: ChatTransport<UIMessage> = new DetokTransport("/stream");
const typed: ChatTransport<Message> = new DetokTransport<Message>("/stream", {
  params: { temperature: 0 },
  stop: ["END"],
});

export function Chat() {
  const { messages, sendMessage, status } = useChat<Message>({ transport: typed, resume: true });
  const answer = useAnswer("/stream", { runtime: "micropython" });
  const calls: (string | undefined)[] = answer.toolCalls.map((call) => call.name);
  const reason: string | undefined = answer.finish?.reason;
  void answer.send({ messages: [{ role: "user", content: "hello" }] });
  // @ts-expect-error a prompt is text
  void answer.send(5);
  const read = useAnswer((prompt: string, { signal }) => readAnswer(fetch("/answer", { signal })));
  void read.send("hello");
  // @ts-expect-error the function takes text
  void read.send({ prompt: "hello" });
  const socket = useAnswer((source: ReadableStream<number[]>) =>
    source.pipeThrough(new DetokStream({ output: "deltas" })),
  );
  void socket.send(new ReadableStream());
  // @ts-expect-error bytes are not an answer
  useAnswer(async () => (await fetch("/answer")).body!);
  return [messages.length, sendMessage, status, calls, reason, plain];
}

const ofStream: StreamOptions = { stop: ["END"], granularity: "grapheme", fatal: true };
// @ts-expect-error what an engine says of itself is not known
((hello: HelloEvent, capture: Capture) => [hello.engine.model.name, capture.header.engine.name])();

const options: TextOptions[] = [
  { reasoning: "all", tools: true },
  { format: "harmony", toolSchemas: [{ type: "function", function: { name: "f" } }] },
  { format: null },
  { reasoning: ["<a>", "</a>", "all"], tools: ["[TOOL_CALLS]", null] },
  {
    reasoning: [
      ["<a>", "</a>"],
      ["<b>", "</b>", "all"],
    ],
    tools: [
      ["<c>", "</c>"],
      ["<d>", null],
    ],
  },
  // @ts-expect-error a block of reasoning has a close tag
  { reasoning: ["<a>", null] },
  // @ts-expect-error a word that is no choice
  { reasoning: "first" },
];

export async function main(element: DetokText) {
  define();
  for (const each of options) void createDecoder(each);
  element.stream = new ReadableStream<string>();
  for await (const { channel, text } of readAnswer(fetch("/answer"), { reasoning: true })) {
    const known: "content" | "reasoning" | "tool_call" = channel;
    console.log(known, text.length);
  }
  for await (const { call, name, complete } of readAnswer(fetch("/answer"))) {
    const number: number | undefined = call;
    console.log(number, name?.length, complete === true);
  }
}
