// The AI SDK's own chat with our transport, for test_examples.py to drive:
// `chat(options, id, messages)`.

import { Chat } from "@ai-sdk/react";
import { DetokTransport } from "detok-web/ai-sdk";

globalThis.chat = (options, id, messages = []) =>
  new Chat({ id, messages, transport: new DetokTransport("/stream", options) });
