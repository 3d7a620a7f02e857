// Build .build/page/: the demo page as few files, so that Python starts before sixty small ones
// have come.
//
// In: web/demo/index.html, whose scripts and stylesheets are the entries. Out: index.html with
// those bundled; the modules that a worker starts with are one file each. The folder is served as
// /page/, beside /runtime/, as web/src/ is; the page itself as /.

import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const web = join(root, "web");
const out = join(root, ".build", "page");

/** @param {import("esbuild").BuildOptions} entry */
async function bundle(entry) {
  const { metafile } = await build({
    absWorkingDir: web,
    outdir: out,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    sourcemap: true,
    metafile: true,
    entryNames: "[name]",
    logLevel: "warning",
    ...entry,
  });
  return /** @type {import("esbuild").Metafile} */ (metafile);
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
let html = await readFile(join(web, "demo", "index.html"), "utf8");
const scripts = [...html.matchAll(/<script type="module" src="\/([^"]+)"[^>]*><\/script>\n/g)];
const styles = [...html.matchAll(/<link rel="stylesheet" href="\/([^"]+)">\n/g)];

const page = await bundle({ entryPoints: scripts.map(([, path = ""]) => path), splitting: true });
await bundle({
  stdin: {
    contents: styles.map(([, path]) => `@import "./${path}";`).join("\n"),
    loader: "css",
    resolveDir: web,
    sourcefile: "page.css",
  },
  outfile: join(out, "page.css"),
  outdir: undefined,
});
// What the library starts a worker with, or imports in one, it names by
// `new URL("./…", import.meta.url)`.
const workers = new Set();
for (const path of Object.keys(page.inputs))
  for (const [, name = ""] of (await readFile(join(web, path), "utf8")).matchAll(
    /new URL\("(\.\/[\w-]+\.js)", import\.meta\.url\)/g,
  ))
    workers.add(posix.join(dirname(path), name));
await Promise.all([...workers].map((path) => bundle({ entryPoints: [path] })));

/**
 * The files that a bundled file imports, and those that they import.
 * @param {string} file
 * @returns {string[]}
 */
const imported = (file) =>
  (page.outputs[file]?.imports ?? [])
    .filter(({ kind }) => kind === "import-statement")
    .flatMap(({ path }) => [path, ...imported(path)]);
const fileOf = (/** @type {string} */ entry) =>
  Object.keys(page.outputs).find((file) => page.outputs[file]?.entryPoint === entry) ?? "";
const preloaded = new Set();
for (const [tag, path = ""] of scripts) {
  const lines = imported(fileOf(path))
    .map((file) => basename(file))
    .filter((name) => !preloaded.has(name) && preloaded.add(name))
    .map((name) => `<link rel="modulepreload" href="/page/${name}">\n`);
  html = html.replace(tag, tag.replace(`/${path}`, `/page/${basename(path)}`) + lines.join(""));
}
for (const [at, [tag]] of styles.entries())
  html = html.replace(tag, at ? "" : '<link rel="stylesheet" href="/page/page.css">\n');
await writeFile(join(out, "index.html"), html);
// Each is asked for when it is chosen.
await cp(join(web, "demo", "samples"), join(out, "samples"), { recursive: true });
