// `node openai_client.mjs URL` asks the exit at URL with OpenAI's own package from npm, whole and
// streamed, and writes what it understood.

import OpenAI from "openai";

const openai = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "any", maxRetries: 0 });
const parameters = { type: "object", properties: { city: { type: "string" } } };
const asked = {
  model: "first",
  messages: [{ role: "user", content: "hi" }],
  tools: [{ type: "function", function: { name: "weather", parameters } }],
};
const models = [];
for await (const model of openai.models.list()) models.push(model.id);
const whole = await openai.chat.completions.create(asked);
const streamed = await openai.chat.completions.stream(asked).finalChatCompletion();
const refused = await openai.chat.completions.create({ ...asked, model: "gpt-5" }).catch((e) => e);

/** What an answer says. */
const said = ({ choices: [{ message, finish_reason }] }) => ({
  text: message.content,
  reasoning: message.reasoning_content,
  calls: message.tool_calls.map(({ function: { name, arguments: given } }) => [
    name,
    JSON.parse(given),
  ]),
  finish: finish_reason,
});
console.log(
  JSON.stringify({
    models,
    answers: [said(whole), said(streamed)],
    usage: whole.usage.prompt_tokens,
    refused: [refused.constructor.name, refused.status, refused.code],
  }),
);
