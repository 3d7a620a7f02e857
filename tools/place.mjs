// Put a file into a folder with its compressed forms, ready to be served with Content-Encoding.
//
// node tools/place.mjs FOLDER NAME…   does it for files that are in the folder already; prints their lines of the manifest, as JSON.

import { createHash } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const brotli = promisify(brotliCompress);
const zip = promisify(gzip);

/**
 * Write a file, and beside it its brotli and gzip forms where they are worth it; return its line of the manifest.
 * @param {string} folder
 * @param {string} name
 * @param {Uint8Array} data
 * @returns {Promise<{bytes: number, br_bytes: number, gz_bytes: number, sha256: string}>} br_bytes and gz_bytes are what travels.
 */
export async function place(folder, name, data) {
  const path = join(folder, name);
  await Promise.all([writeFile(path, data), rm(`${path}.br`, { force: true }), rm(`${path}.gz`, { force: true })]);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: 24,
    [constants.BROTLI_PARAM_SIZE_HINT]: data.length,
  };
  const [br, gz] = await Promise.all([brotli(data, { params }), zip(data, { level: 9 })]);
  // A file that is compressed already: a few per cent are not worth a second file and a decompression.
  const worth = (/** @type {Uint8Array} */ form) => form.length < 0.97 * data.length;
  if (worth(br)) await writeFile(`${path}.br`, br);
  if (worth(gz)) await writeFile(`${path}.gz`, gz);
  return {
    bytes: data.length,
    br_bytes: worth(br) ? br.length : data.length,
    gz_bytes: worth(gz) ? gz.length : data.length,
    sha256: createHash("sha256").update(data).digest("hex"),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, ...names] = process.argv.slice(2);
  const lines = await Promise.all(names.map(async (name) => [name, await place(folder, name, await readFile(join(folder, name)))]));
  console.log(JSON.stringify(Object.fromEntries(lines)));
}
