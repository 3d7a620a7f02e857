// What each app does: bytes with a stop string, then the same text as ids of a vocabulary.
import { DetokStream, loadVocabulary } from "detok-web";

const TEXT = "naïve 你好 👩‍🚀 שלום 🇩🇪";

/** @param {Iterable<any>} chunks */
const sourceOf = (chunks) =>
  new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });

/** @param {string} vocabularyUrl @param {(text: string) => void} show */
export async function decode(vocabularyUrl, show) {
  const bytes = new TextEncoder().encode(TEXT);
  const stopped = [...bytes, ...new TextEncoder().encode("</s> and nothing more")];
  let text = "";
  try {
    const pieces = sourceOf(stopped.map((byte) => Uint8Array.of(byte)));
    for await (const part of pieces.pipeThrough(new DetokStream({ stop: "</s>" })))
      show((text += part));
    const vocabulary = await loadVocabulary(vocabularyUrl);
    for await (const part of sourceOf(bytes).pipeThrough(new DetokStream({ vocabulary })))
      show((text += part));
  } catch (error) {
    show(`${text} ${error}`);
  }
  document.documentElement.dataset.state = "finished";
}
