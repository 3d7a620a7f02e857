// transformers.js, TextStreamer.

import { readFileSync } from "node:fs";
import { PreTrainedTokenizer, TextStreamer } from "@huggingface/transformers";

const manifest = new URL("../package.json", import.meta.resolve("@huggingface/transformers"));
export const SYSTEM = `transformers.js ${JSON.parse(readFileSync(manifest, "utf8")).version}, TextStreamer`;
export const PURPOSE = "prints an answer, a word at a time";

export default function adapter({ input, tokenizer, prompt, options = {} }) {
  const { skip_special_tokens = true, clean_up_tokenization_spaces = false, ...rest } = options;
  const { byte_fallback = "utf8", ...others } = rest;
  // A prompt is skipped there, and has no effect on what follows.
  if (input !== "ids" || byte_fallback !== "utf8" || prompt || Object.keys(others).length)
    return null;
  let text = "";
  const special = tokenizer.added_tokens.filter((token) => token.special);
  const made = new PreTrainedTokenizer(tokenizer, {
    tokenizer_class: "PreTrainedTokenizerFast",
    additional_special_tokens: special.map((token) => token.content),
    clean_up_tokenization_spaces,
  });
  const streamer = new TextStreamer(made, {
    skip_prompt: true, // what is put first is the prompt
    callback_function: (part) => (text += part),
    skip_special_tokens,
    clean_up_tokenization_spaces,
  });
  const take = (run) => {
    text = "";
    run();
    return text;
  };
  const put = (ids) => streamer.put([ids.map(BigInt)]);
  put([]);
  return {
    push: (ids) => take(() => ids.forEach((id) => put([id]))),
    flush: () => take(() => streamer.end()),
  };
}
