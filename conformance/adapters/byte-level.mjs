// The cases of the vocabulary "byte-level", for libraries of OpenAI's vocabularies.

const PRINTABLE = (byte) =>
  (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte < 0x100 && byte !== 0xad);
const BYTE = new Map();
let next = 256;
for (let byte = 0; byte < 256; byte++) BYTE.set(PRINTABLE(byte) ? byte : next++, byte);

/** The bytes of each token by its rank, and the ids of added tokens; null for other cases. */
export function byteLevel({ input, vocabulary, tokenizer, prompt, steps, options = {} }) {
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
  return { ranks, added };
}
