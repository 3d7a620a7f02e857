// TextDecoder, each chunk by itself: what pages do that forget { stream: true }.

export const SYSTEM = `TextDecoder, each chunk by itself (Node ${process.versions.node})`;
export const PURPOSE = "bytes to text, of a whole text";

export default function adapter({ input, options = {} }) {
  if (input !== "bytes" || Object.keys(options).length) return null;
  return { push: (bytes) => new TextDecoder().decode(bytes), flush: () => "" };
}
