// js-tiktoken: decode of all ids so far, shown anew after each one.

import { readFileSync } from "node:fs";
import { Tiktoken } from "js-tiktoken/lite";

const manifest = new URL("../package.json", import.meta.resolve("js-tiktoken/lite"));
export const SYSTEM = `js-tiktoken ${JSON.parse(readFileSync(manifest, "utf8")).version}, decode of all ids so far`;
export const PURPOSE = "ids of OpenAI's vocabularies to text, of a whole text";

const PRINTABLE = (byte) =>
  (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte < 0x100 && byte !== 0xad);
const BYTE = new Map();
let next = 256;
for (let byte = 0; byte < 256; byte++) BYTE.set(PRINTABLE(byte) ? byte : next++, byte);

export default function adapter({ input, vocabulary, tokenizer, prompt, steps, options = {} }) {
  const { skip_special_tokens, ...others } = options;
  if (input !== "ids" || vocabulary !== "byte-level" || prompt || Object.keys(others).length)
    return null;
  // Added tokens are special tokens there, and shown.
  const special_tokens = Object.fromEntries(
    tokenizer.added_tokens.map((token) => [token.content, token.id]),
  );
  const used = steps.flatMap((step) => step.in ?? []);
  if (Object.values(special_tokens).some((id) => used.includes(id))) return null;
  const ranks = Object.entries(tokenizer.model.vocab)
    .sort((a, b) => a[1] - b[1])
    .map(([piece]) =>
      Buffer.from([...piece].map((letter) => BYTE.get(letter.codePointAt(0)))).toString("base64"),
    );
  const encoding = new Tiktoken({
    pat_str: "\\S+|\\s+",
    special_tokens,
    bpe_ranks: `! 0 ${ranks.join(" ")}`,
  });
  const all = [];
  const flush = () => ({ shown: encoding.decode(all) });
  return { push: (ids) => (all.push(...ids), flush()), flush };
}
