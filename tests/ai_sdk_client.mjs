// `node ai_sdk_client.mjs URL` asks the exit at URL with the AI SDK, and writes what it understood.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, streamText, tool } from "ai";

const provider = createOpenAICompatible({
  name: "detok",
  baseURL: process.argv[2] + "/v1",
  apiKey: "any",
  includeUsage: true,
});
const said = { text: "", reasoning: "", calls: [], finish: null, usage: null, errors: [] };
const weather = tool({ inputSchema: jsonSchema({ type: "object", properties: {} }) });
const result = streamText({
  model: provider("first"),
  prompt: "hi",
  tools: { weather },
  maxRetries: 0,
  onError: ({ error }) => said.errors.push(String(error)),
});
for await (const part of result.fullStream) {
  if (part.type === "text-delta") said.text += part.text;
  if (part.type === "reasoning-delta") said.reasoning += part.text;
  if (part.type === "tool-call") said.calls.push([part.toolName, part.input]);
  if (part.type === "finish") {
    said.finish = part.finishReason;
    said.usage = [part.totalUsage.inputTokens, part.totalUsage.outputTokens];
  }
}
console.log(JSON.stringify(said));
