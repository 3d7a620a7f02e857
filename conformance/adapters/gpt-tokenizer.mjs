// gpt-tokenizer, decodeAsyncGenerator: it takes ids and yields text as it becomes whole.

import { readFileSync } from "node:fs";
import { GptEncoding } from "gpt-tokenizer/esm/GptEncoding";
import { byteLevel } from "./byte-level.mjs";

const manifest = new URL("../package.json", import.meta.resolve("gpt-tokenizer"));
export const SYSTEM = `gpt-tokenizer ${JSON.parse(readFileSync(manifest, "utf8")).version}, decodeAsyncGenerator`;
export const PURPOSE = "ids of OpenAI's vocabularies to text as they come";

export default function adapter(given) {
  const found = byteLevel(given);
  if (!found) return null;
  const encoding = new GptEncoding({
    bytePairRankDecoder: found.ranks,
    specialTokensEncoder: found.added,
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
