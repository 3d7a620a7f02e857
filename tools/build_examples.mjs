// Build .build/examples/: the examples that import packages by name, which a browser can't find without a bundler.
//
// In: web/examples/react.js and ai-sdk.js, as a reader copies them. Out: a module each; `detok-web/…` is taken from web/src/, and what it needs of the
// library itself stays where it is served, because its worker is found beside it. `react.development.js` is React with its own checks. Named
// files are built instead, for tests.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const examples = join(root, "web", "examples");

/** @type {import("esbuild").Plugin} */
const library = {
  name: "the library as it is served",
  setup({ onResolve }) {
    onResolve({ filter: /^detok-web\// }, ({ path }) => ({ path: join(root, "web", "src", `${path.slice("detok-web/".length)}.js`) }));
    onResolve({ filter: /^\.\/(connect|decoder)\.js$/ }, ({ path }) => ({ path: `/src/${path.slice(2)}`, external: true }));
  },
};

const options = {
  bundle: true,
  minify: true,
  /** @type {"esm"} */ format: "esm",
  target: "es2022",
  outdir: join(root, ".build", "examples"),
  plugins: [library],
  /** @type {"warning"} */ logLevel: "warning",
};

const production = { "process.env.NODE_ENV": '"production"' };
const named = process.argv.slice(2);
if (named.length) {
  await build({ ...options, entryPoints: named, define: production });
  process.exit(0);
}
await build({ ...options, entryPoints: [join(examples, "react.js"), join(examples, "ai-sdk.js")], define: production });
await build({ ...options, entryPoints: { "react.development": join(examples, "react.js") }, define: { "process.env.NODE_ENV": '"development"' } });
