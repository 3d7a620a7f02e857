// What every browser has: TextDecoder with { stream: true }.

export const SYSTEM = `TextDecoder with stream: true (Node ${process.versions.node})`;
export const PURPOSE = "bytes to text";

export default function adapter({ input, options = {} }) {
  if (input !== "bytes" || Object.keys(options).length) return null;
  const decoder = new TextDecoder();
  return {
    push: (bytes) => decoder.decode(bytes, { stream: true }),
    flush: () => decoder.decode(),
  };
}
