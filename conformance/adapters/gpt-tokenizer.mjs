// gpt-tokenizer, decodeAsyncGenerator: it takes ids and yields text as it becomes whole.

import { readFileSync } from "node:fs";
import { GptEncoding } from "gpt-tokenizer/esm/GptEncoding";

const manifest = new URL("../package.json", import.meta.resolve("gpt-tokenizer"));
export const SYSTEM = `gpt-tokenizer ${JSON.parse(readFileSync(manifest, "utf8")).version}, decodeAsyncGenerator`;
export const PURPOSE = "ids of OpenAI's vocabularies to text as they come";

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
  const added = new Map(tokenizer.added_tokens.map((token) => [token.content, token.id]));
  const used = steps.flatMap((step) => step.in ?? []);
  if ([...added.values()].some((id) => used.includes(id))) return null;
  const ranks = Object.entries(tokenizer.model.vocab)
    .sort((a, b) => a[1] - b[1])
    .map(([piece]) => [...piece].map((letter) => BYTE.get(letter.codePointAt(0))));
  const encoding = new GptEncoding({
    bytePairRankDecoder: ranks,
    specialTokensEncoder: added,
    tokenSplitRegex: /\S+|\s+/gu,
  });
  // The generator asks for an id when it has yielded all that it will of those before.
  let asked, give;
  const queue = [];
  const waits = () => new Promise((resolve) => (asked = resolve));
  async function* source() {
    for (;;) {
      if (!queue.length) {
        asked("");
        await new Promise((resolve) => (give = resolve));
      }
      if (!queue.length) return;
      yield queue.shift();
    }
  }
  let text = "";
  let over = false;
  const begun = waits();
  const reader = (async () => {
    try {
      for await (const part of encoding.decodeAsyncGenerator(source())) text += part;
    } finally {
      over = true;
      asked();
    }
  })();
  reader.catch(() => {});
  const take = async (ids) => {
    await begun;
    text = "";
    if (ids && !ids.length) return "";
    if (over) await reader;
    queue.push(...(ids ?? []));
    const ready = waits();
    give?.();
    await ready;
    if (over) await reader;
    return text;
  };
  return { push: take, flush: () => take() };
}
