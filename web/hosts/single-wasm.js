/**
 * What micropython.mjs gets in the place of `fetch`: its WebAssembly, which the worker has already.
 */

/** @type {{bytes?: Uint8Array<ArrayBuffer>}} */
export const wasm = {};

export const fetch = async () =>
  new Response(wasm.bytes, { headers: { "content-type": "application/wasm" } });
