// Build .build/examples/: the examples that import packages by name, which a browser can't find
// without a bundler.
//
// In: web/examples/react.jsx and ai-sdk.jsx, as a reader copies them, and uPlot, which the page
// draws times with, and what the chat reads Markdown with. Out: one module each.
// `detok-web/…` comes from web/src/; the parts of the library that start its worker stay
// external, because the worker is found beside them.
// `react.development.js` is built with React's development checks. With arguments it builds those
// files instead, for tests.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const examples = join(root, "web", "examples");

/** @type {import("esbuild").Plugin} */
const library = {
  name: "the served library",
  setup({ onResolve }) {
    onResolve({ filter: /^detok-web$/ }, () => ({ path: "/src/index.js", external: true }));
    onResolve({ filter: /^detok-web\// }, ({ path }) => ({
      path: join(root, "web", "src", `${path.slice("detok-web/".length)}.js`),
    }));
    onResolve({ filter: /^\.\/(connect|decoder)\.js$/ }, ({ path }) => ({
      path: `/src/${path.slice(2)}`,
      external: true,
    }));
  },
};

const options = {
  bundle: true,
  minify: true,
  /** @type {"esm"} */ format: "esm",
  target: "es2022",
  /** @type {"automatic"} */ jsx: "automatic",
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
await build({
  ...options,
  entryPoints: [join(examples, "react.jsx"), join(examples, "ai-sdk.jsx")],
  define: production,
});
await build({ ...options, entryPoints: { markdown: join(examples, "chat", "markdown.js") } });
const plot = join(root, "node_modules", "uplot", "dist");
await build({ ...options, entryPoints: { uplot: join(plot, "uPlot.esm.js") } });
await build({ ...options, entryPoints: { uplot: join(plot, "uPlot.min.css") } });
await build({
  ...options,
  entryPoints: { "react.development": join(examples, "react.jsx") },
  define: { "process.env.NODE_ENV": '"development"' },
});
