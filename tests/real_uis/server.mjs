// Serves chat UIs from npm, each with the settings of its own guide, before an OpenAI-compatible
// engine.
//
// In: `node server.mjs ENGINE BRIDGE`, the addresses of an engine and of a `detok serve`. Out: one
// line {"url": …} on stdout, then the pages until stdin ends: /NAME.html?mode=MODE for each file of
// pages/, which begins with its modes. POST /v1/chat/completions passes the engine's own bytes on;
// /api/messages and /api/text are the AI SDK's two kinds of stream, /api/nlbridge and
// /api/langserve what NLUX's adapters ask. /detok-web/ is the library as it is packed for npm;
// /stream and /vocabulary/ are the bridge's.

import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { connect } from "node:net";
import { dirname, extname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { convertToModelMessages, streamText } from "ai";
import { build } from "esbuild";

const [engine, bridge] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const pages = join(here, "pages");
const names = (await readdir(pages)).map((file) => file.slice(0, -".jsx".length));
const bundles = await build({
  entryPoints: names.map((name) => join(pages, `${name}.jsx`)),
  outdir: "/",
  bundle: true,
  write: false,
  format: "esm",
  jsx: "automatic",
  charset: "utf8",
  minify: true,
  external: ["detok-web", "detok-web/*"],
  loader: { ".woff": "empty", ".woff2": "empty", ".ttf": "empty" },
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
});
const scripts = new Map(bundles.outputFiles.map((file) => [file.path, file.contents]));
const html = (
  name,
) => `<!doctype html><html lang="en"><meta charset="utf-8"><title>${name}</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width">${scripts.has(`/${name}.css`) ? `<link rel="stylesheet" href="/${name}.css">` : ""}
<script type="importmap">${imports}</script><main id="root"></main><script type="module" src="/${name}.js"></script></html>`;
const imports = JSON.stringify({
  imports: {
    "detok-web": "/detok-web/dist/index.js",
    "detok-web/ai-sdk": "/detok-web/dist/ai-sdk.js",
    "detok-web/fetch": "/detok-web/dist/fetch.js",
  },
});
const types = {
  ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".wasm": "application/wasm",
};

const model = createOpenAICompatible({ name: "recite", baseURL: `${engine}/v1` })("recite");
const recite = (prompt) => streamText({ model, prompt, temperature: 0 });
async function answer(body) {
  const { messages } = JSON.parse(body);
  // deep-chat's messages have a `text`, the AI SDK's have parts.
  const ours = messages.map((m) =>
    m.parts
      ? m
      : { role: m.role === "ai" ? "assistant" : m.role, parts: [{ type: "text", text: m.text }] },
  );
  return streamText({ model, messages: await convertToModelMessages(ours), temperature: 0 });
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
  "/api/nlbridge": (body) => recite(JSON.parse(body).payload.message).toTextStreamResponse(),
  "/api/langserve": (body) => {
    const { textStream } = recite(JSON.parse(body).input);
    return new Response(ReadableStream.from(langServe(textStream)), {
      headers: { "content-type": "text/event-stream; charset=utf-8" },
    });
  },
};
/** The events of LangServe: the text in JSON that is not limited to ASCII. */
async function* langServe(texts) {
  const utf8 = new TextEncoder();
  for await (const text of texts)
    yield utf8.encode(`event: data\ndata: ${JSON.stringify(text)}\n\n`);
  yield utf8.encode("event: end\n\n");
}

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://127.0.0.1");
  const name = names.find((one) => pathname === `/${one}.html`);
  try {
    if (name)
      response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(html(name));
    else if (scripts.has(pathname))
      response
        .writeHead(200, { "content-type": types[extname(pathname)] })
        .end(scripts.get(pathname));
    else if (pathname.startsWith("/detok-web/")) {
      const type = types[extname(pathname)] ?? "application/octet-stream";
      // The address is normal: `new URL` has removed every "..".
      const file = await readFile(join(here, pathname));
      response.writeHead(200, { "content-type": type, "content-length": file.length }).end(file);
    } else if (pathname.startsWith("/vocabulary/")) {
      const file = Buffer.from(await (await fetch(bridge + pathname)).arrayBuffer());
      response.writeHead(200, { "content-length": file.length }).end(file);
    } else if (request.method === "POST" && routes[pathname]) {
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
// The bridge is asked as from a page of its own.
server.on("upgrade", (request, socket, head) => {
  const { host, hostname, port } = new URL(bridge);
  const headers = { ...request.headers, host, origin: bridge };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const peer = connect(Number(port), hostname);
  peer.write(`GET ${request.url} HTTP/1.1\r\n${lines.join("")}\r\n`);
  peer.write(head);
  pipeline(socket, peer, socket).catch(() => {}); // either side may leave at any time
});
server.listen(0, "127.0.0.1", () =>
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` })),
);
process.stdin.resume().on("end", () => process.exit(0));
