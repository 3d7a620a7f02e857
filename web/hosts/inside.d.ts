// The modules that tools/hosts.mjs makes for the single file.
declare module "detok:worker" {
  /** The script of the worker. */
  export const script: string;
}
declare module "detok:runtime" {
  export const loadMicroPython: (options: object) => Promise<any>;
  /** micropython.wasm and detok_micropython.bin, compressed (deflate), in base64. */
  export const wasm: string;
  export const bundle: string;
}
