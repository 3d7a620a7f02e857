// Build the forms of the library that a page does not load as modules: the one for servers (Node,
// Deno, Bun), and the single file.
//
// In: web/src/, and web/hosts/, whose modules stand in for some of them. Out: files.

import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { deflateSync } from "node:zlib";
import { build } from "esbuild";

/**
 * Put modules of web/hosts/ in the place of modules of web/src/.
 * @param {Record<string, string>} instead  Names, as `{"host.js": "server.js"}`.
 * @returns {import("esbuild").Plugin}
 */
const standIns = (instead) => ({
  name: "stand-ins",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\.\// }, ({ path, resolveDir }) => {
      const name = instead[path.slice(2)];
      return name && basename(resolveDir) === "src"
        ? { path: join(resolveDir, "..", "hosts", name) }
        : undefined;
    }),
});

/** @type {import("esbuild").BuildOptions} */
const common = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };

/**
 * Build the library for servers. It is read in stack traces, so nothing is minified.
 * @param {string} web  The folder that src/ and hosts/ are in.
 * @param {import("esbuild").BuildOptions} entry  Its index, and where it goes.
 */
export const buildServer = (web, entry) =>
  build({
    ...common,
    absWorkingDir: web,
    external: ["node:*"],
    inject: [join(web, "hosts", "server-globals.js")],
    plugins: [standIns({ "host.js": "server.js", "step-table.js": "server-steps.js" })],
    ...entry,
  });

/**
 * Resolve modules whose source is made here.
 * @param {Record<string, () => string | Promise<string>>} sources  By name, as "detok:worker".
 * @param {string} resolveDir  What they import from.
 * @returns {import("esbuild").Plugin}
 */
const made = (sources, resolveDir) => ({
  name: "made",
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^detok:/ }, ({ path }) => ({ path, namespace: "made" }));
    onLoad({ filter: /.*/, namespace: "made" }, async ({ path }) => ({
      contents: await sources[path]?.(),
      resolveDir,
    }));
  },
});

/**
 * Build the library as one file, which loads no other: the worker and MicroPython are inside.
 * @param {string} web  The folder that src/ and hosts/ are in.
 * @param {string} runtime  The folder of MicroPython's files.
 * @param {string} banner  The notice of licences.
 * @returns {Promise<string>}
 */
export async function buildSingle(web, runtime, banner) {
  const hosts = join(web, "hosts");
  const options = {
    ...common,
    absWorkingDir: web,
    minify: true,
    write: /** @type {const} */ (false),
  };
  const packed = (/** @type {string} */ name) =>
    JSON.stringify(deflateSync(readFileSync(join(runtime, name)), { level: 9 }).toString("base64"));
  const program = () =>
    [
      'import { fetch } from "./single-wasm.js";',
      readFileSync(join(runtime, "micropython.mjs"), "utf8"),
      `export const wasm = ${packed("micropython.wasm")};`,
      `export const bundle = ${packed("detok_micropython.bin")};`,
    ].join("\n");
  const worker = await build({
    ...options,
    entryPoints: ["hosts/single-worker.js"],
    // What MicroPython would do in Node.
    define: { "globalThis.process": "undefined", process: "undefined" },
    external: ["fs", "module", "path", "url"],
    plugins: [made({ "detok:runtime": program }, hosts)],
  });
  const script = () => `export const script = ${JSON.stringify(worker.outputFiles[0]?.text)};`;
  const whole = await build({
    ...options,
    entryPoints: ["hosts/single-index.js"],
    banner: { js: `/*!\n${banner}*/` },
    plugins: [standIns({ "host.js": "single.js" }), made({ "detok:worker": script }, hosts)],
  });
  return whole.outputFiles[0]?.text ?? "";
}
