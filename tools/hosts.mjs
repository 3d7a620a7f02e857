// The forms of the library that are not made of modules in a page: for servers (Node, Deno, Bun), and the single file.
//
// In: web/src/, and web/hosts/, whose modules stand in for some of them. Out: files.

import { basename, join } from "node:path";
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
