// A plain static server on 127.0.0.1: the files of a folder in brotli, to be cached forever.
// `node static_server.mjs FOLDER` prints its port.

import { createServer } from "node:http";
import { readFileSync, statSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";

const TYPES = {
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".json": "application/json",
  ".wasm": "application/wasm",
  ".html": "text/html",
};
const QUICK = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }; // nobody counts bytes here, and the first visitor waits for it
const squeezed = new Map();

createServer(({ url }, answer) => {
  const path = join(
    process.argv[2],
    normalize(decodeURIComponent(new URL(url, "http://localhost").pathname)),
  );
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return void answer.writeHead(404).end();
  if (!squeezed.has(path)) squeezed.set(path, brotliCompressSync(readFileSync(path), QUICK));
  const type = TYPES[extname(path)] ?? "application/octet-stream";
  answer
    .writeHead(200, {
      "content-type": type,
      "content-encoding": "br",
      "cache-control": "max-age=31536000, immutable",
    })
    .end(squeezed.get(path));
}).listen(0, "127.0.0.1", function () {
  console.log(this.address().port);
});
