/**
 * `fetch` for micropython.mjs in the single file: gives the WebAssembly that the worker contains.
 */

/** @type {{bytes?: Uint8Array<ArrayBuffer>}} */
export const wasm = {};

export const fetch = async () =>
  new Response(wasm.bytes, { headers: { "content-type": "application/wasm" } });
