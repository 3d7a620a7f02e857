// Compress files with brotli at its best: `node tools/compress.mjs FOLDER` writes FILE.br beside each file
// for which that is worth it. The bridge serves it to clients that take it.

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";

const [folder = "."] = process.argv.slice(2);
await Promise.all(
  (await readdir(folder)).map(async (name) => {
    const data = await readFile(join(folder, name));
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_LGWIN]: 24,
      [constants.BROTLI_PARAM_SIZE_HINT]: data.length,
    };
    const small = await promisify(brotliCompress)(data, { params });
    // A few per cent are not worth a second file and a decompression.
    if (small.length < 0.97 * data.length) await writeFile(join(folder, `${name}.br`), small);
  }),
);
