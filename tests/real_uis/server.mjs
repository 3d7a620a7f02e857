// Serves three chat UIs from npm, each with the settings of its own guide, before an OpenAI-compatible engine.
//
// In: `node server.mjs ENGINE`, the engine's address. Out: one line {"url": …} on stdout, then the pages until stdin ends:
//   /deep-chat.html?mode=events|readable|simulation|careless   /ai-sdk.html?mode=messages|text   /assistant-ui.html?mode=smooth|plain
// POST /v1/chat/completions passes the engine's own bytes on; /api/messages and /api/text are the AI SDK's two kinds of stream.

import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { convertToModelMessages, streamText } from "ai";
import { build } from "esbuild";

const engine = process.argv[2];
const pages = join(dirname(fileURLToPath(import.meta.url)), "pages");
const names = ["deep-chat", "ai-sdk", "assistant-ui"];
const bundles = await build({
  entryPoints: names.map((name) => join(pages, `${name}.jsx`)),
  outdir: "/",
  bundle: true,
  write: false,
  format: "esm",
  jsx: "automatic",
  charset: "utf8",
  minify: true,
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
});
const scripts = new Map(bundles.outputFiles.map((file) => [file.path, file.contents]));
const html = (
  name,
) => `<!doctype html><html lang="en"><meta charset="utf-8"><title>${name}</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width"><main id="root"></main><script type="module" src="/${name}.js"></script></html>`;

const recite = createOpenAICompatible({ name: "recite", baseURL: `${engine}/v1` })("recite");
async function answer(body) {
  const { messages } = JSON.parse(body);
  // deep-chat's messages have a `text`, the AI SDK's have parts.
  const ours = messages.map((m) =>
    m.parts
      ? m
      : { role: m.role === "ai" ? "assistant" : m.role, parts: [{ type: "text", text: m.text }] },
  );
  return streamText({
    model: recite,
    messages: await convertToModelMessages(ours),
    temperature: 0,
  });
}
const routes = {
  "/v1/chat/completions": (body) =>
    fetch(`${engine}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    }),
  "/api/messages": async (body) => (await answer(body)).toUIMessageStreamResponse(),
  "/api/text": async (body) => (await answer(body)).toTextStreamResponse(),
};

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://127.0.0.1");
  const name = names.find((one) => pathname === `/${one}.html`);
  try {
    if (name)
      response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(html(name));
    else if (scripts.has(pathname))
      response
        .writeHead(200, { "content-type": "text/javascript; charset=utf-8" })
        .end(scripts.get(pathname));
    else if (request.method === "POST" && routes[pathname]) {
      const chunks = await request.toArray();
      const answered = await routes[pathname](Buffer.concat(chunks).toString("utf8"));
      const kept = ["content-type", "cache-control", "x-vercel-ai-ui-message-stream"].filter(
        (header) => answered.headers.has(header),
      );
      response.writeHead(
        answered.status,
        Object.fromEntries(kept.map((header) => [header, answered.headers.get(header)])),
      );
      await pipeline(Readable.fromWeb(answered.body), response);
    } else response.writeHead(404, { "content-type": "text/plain" }).end("not here\n");
  } catch (error) {
    if (!response.headersSent) response.writeHead(502);
    response.destroy();
    if (error.code !== "ERR_STREAM_PREMATURE_CLOSE") console.error(error);
  }
});
server.listen(0, "127.0.0.1", () =>
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` })),
);
process.stdin.resume().on("end", () => process.exit(0));
