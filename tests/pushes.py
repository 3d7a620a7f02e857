"""Pushes through createDecoder: the script that pages and servers run, and what the core gives."""

# The output of each push, with late text; then that of the end, and why the text has ended.
PUSHED = """async ([options, runs, url]) => {
  if (url) options.vocabulary = await lib.loadVocabulary(url, { ...options, cache: false });
  const out = [];
  for (const symbols of runs) {
    const decoder = await lib.createDecoder(options);
    const pushes = [];
    for (const one of symbols) {
      const at_once = typeof one === "number" ? decoder.push(one) : decoder.feed(fromHex(one));
      pushes.push(at_once + (await decoder.ready()));
      if (decoder.finishReason) break;
    }
    const rest = decoder.flush() + (await decoder.ready());
    out.push([pushes, rest, decoder.finishReason]);
  }
  return out;
}"""


def pushed(detokenizer, ids):
    return [detokenizer.push(i) for i in ids], detokenizer.flush(), "end"
