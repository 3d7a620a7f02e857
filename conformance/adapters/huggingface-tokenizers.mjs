// @huggingface/tokenizers: decode of all ids so far, shown anew after each one.

import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

const manifest = new URL("../package.json", import.meta.resolve("@huggingface/tokenizers"));
export const SYSTEM = `@huggingface/tokenizers ${JSON.parse(readFileSync(manifest, "utf8")).version}, decode of all ids so far`;
export const PURPOSE = "ids to text, of a whole text";

export default function adapter({ input, tokenizer, prompt, options = {} }) {
  const { skip_special_tokens = true, clean_up_tokenization_spaces = false, ...rest } = options;
  const { byte_fallback = "utf8", ...others } = rest;
  if (input !== "ids" || byte_fallback !== "utf8" || prompt || Object.keys(others).length)
    return null;
  const special = tokenizer.added_tokens.filter((token) => token.special);
  const made = new Tokenizer(tokenizer, {
    additional_special_tokens: special.map((token) => token.content),
  });
  const all = [];
  const flush = () => ({
    shown: all.length
      ? made.decode(all, { skip_special_tokens, clean_up_tokenization_spaces })
      : "",
  });
  return { push: (ids) => (all.push(...ids), flush()), flush };
}
