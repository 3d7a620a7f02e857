/**
 * Writes to the clipboard, or says why a page cannot: browsers offer it only to pages that came
 * over https or from the reader's own machine.
 */

const NO_CLIPBOARD =
  "At this address the browser lets no page copy. Open the page over https or at 127.0.0.1, or press Save to get this stream as a file.";

/**
 * Throws a sentence with the way out if the browser offers no clipboard.
 * @param {() => string | Promise<string>} make  Makes the text, if it can be copied.
 */
export async function copyText(make) {
  /** @type {Clipboard | undefined} */
  const clipboard = navigator.clipboard;
  if (!clipboard) throw new Error(NO_CLIPBOARD);
  await clipboard.writeText(await make());
}
