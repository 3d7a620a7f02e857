// js-tiktoken: decode of all ids so far, shown anew after each one.

import { readFileSync } from "node:fs";
import { Tiktoken } from "js-tiktoken/lite";
import { byteLevel } from "./byte-level.mjs";

const manifest = new URL("../package.json", import.meta.resolve("js-tiktoken/lite"));
export const SYSTEM = `js-tiktoken ${JSON.parse(readFileSync(manifest, "utf8")).version}, decode of all ids so far`;
export const PURPOSE = "ids of OpenAI's vocabularies to text, of a whole text";

export default function adapter(given) {
  const found = byteLevel(given);
  if (!found) return null;
  const ranks = found.ranks.map((bytes) => Buffer.from(bytes).toString("base64"));
  const encoding = new Tiktoken({
    pat_str: "\\S+|\\s+",
    special_tokens: Object.fromEntries(found.added),
    bpe_ranks: `! 0 ${ranks.join(" ")}`,
  });
  const all = [];
  const flush = () => ({ shown: encoding.decode(all) });
  return { push: (ids) => (all.push(...ids), flush()), flush };
}
