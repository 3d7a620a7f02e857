// Build what is published to npm: `node tools/package_web.mjs [folder]` writes
// detok-web-<version>.tgz and detok-web-pyodide-<version>.tgz there (dist/ unless said otherwise).
//
// In: web/package.json, whose `exports` say which modules of web/src/ are entries;
// packages/detok-web-pyodide/; .build/runtime/; the version in detok_py/__init__.py; the address of
// the repository in pyproject.toml. Out: the packages. Of detok-web, index.js is one file, and the
// sub-paths import what they share with it from it; the worker is one file as well, because
// bundlers copy it as it is. Everything minified, with maps, sources and types. node/ has the same
// modules for Node, Deno and Bun, which decode in their own process. Beside the package
// detok-web-<version>.js, the library as one file for <script type="module">, which loads no other.
// Last line: sizes, and what a page downloads, gzip.

import { execFileSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { buildServer, buildSingle } from "./hosts.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const WORKER = "decoder-worker.js";
const SOCKET = "socket.js";
// Vite makes data: URLs of files below 4096 bytes, and a worker of such a URL has no origin: it may
// fetch nothing. The line takes some 50 bytes of a download.
const LONG = { js: `// ${"-".repeat(4096)}` };
const OTHER = "detok-web-pyodide";
// What index.js imports only when it is needed.
const ON_DEMAND = ["link.js", "vocabulary.js", "why.js"];
// What JSDoc cannot say: streams are iterable, also where tsconfig's `lib` leaves that out; the
// element's name.
const HEAD = '/// <reference lib="dom.asynciterable" />\n';
/** @type {Record<string, string>} */
const TAILS = {
  "element.d.ts":
    'declare global {\n    interface HTMLElementTagNameMap {\n        "detok-text": DetokText;\n    }\n}\n',
};
const MICROPYTHON = [
  "micropython.mjs",
  "micropython.wasm",
  "detok_micropython.bin",
  "detok_captures.bin",
];
// Cut down, for those who ask for it and for reading tokenizer files. Captures are read from the
// folder that a page names.
const PYODIDE = [
  "pyodide.mjs",
  "pyodide.asm.mjs",
  "pyodide.asm.wasm",
  "python_core.zip",
  "python_core.json",
  "detok_captures.bin",
];
/** @param {RegExp} pattern @param {string[]} path */
const find = async (pattern, ...path) => {
  const found = pattern.exec(await readFile(join(root, ...path), "utf8"))?.[1];
  if (!found) throw new Error(`${join(...path)} has no line like ${pattern.source}.`);
  return found;
};
const version = await find(/^__version__ = "([^"]+)"/m, "detok_py", "__init__.py");
const repository = await find(/^Repository = "([^"]+)"/m, "pyproject.toml");

/** The manifest of a package in a folder of the repository. @param {string} folder */
async function manifestOf(folder) {
  const manifest = JSON.parse(await readFile(join(root, folder, "package.json"), "utf8"));
  return {
    ...manifest,
    version,
    homepage: `${repository}/tree/v${version}/${folder}#readme`,
    repository: { type: "git", url: `git+${repository}.git`, directory: folder },
    bugs: { url: `${repository}/issues` },
  };
}

/**
 * What every package has beside its files.
 * @param {string} target
 * @param {string} folder
 * @param {object} manifest
 */
async function finish(target, folder, manifest) {
  for (const name of ["web/THIRD-PARTY.md", "LICENSE"])
    await cp(join(root, name), join(target, basename(name)));
  // Where it is published there is nothing beside it: links lead to the repository.
  const readme = await readFile(join(root, folder, "README.md"), "utf8");
  const base = `${repository}/blob/v${version}/${folder}/`;
  await writeFile(
    join(target, "README.md"),
    readme.replace(
      /(\]\()(?![a-z]+:)([^)#]+)/g,
      (_, start, path) => start + new URL(path, base).href,
    ),
  );
  await writeFile(join(target, "package.json"), JSON.stringify(manifest, null, 2) + "\n");
}

/** @param {string} target  The folder of the package, new. */
async function stage(target) {
  const manifest = await manifestOf("web");
  // What runs in Pyodide is of the same version.
  manifest.peerDependencies[OTHER] = version;
  const files = Object.values(manifest.exports)
    .map((entry) => entry.default ?? entry)
    .filter((file) => file.startsWith("./dist/"));
  const adapters = files
    .map((file) => basename(file))
    .filter((file) => file !== WORKER && file !== "index.js")
    .concat(ON_DEMAND);
  for (const folder of ["src", "hosts"])
    await cp(join(root, "web", folder), join(target, folder), { recursive: true });
  await writeFile(
    join(target, "src", "pyodide-package.js"),
    `// The folder beside that of this package, seen from runtime/.\nexport const FOLDER = "../../${OTHER}/";\n`,
  );
  const used = new Set();
  /** @param {import("esbuild").BuildOptions} entry */
  const bundle = async (entry) => {
    const { metafile } = await build({
      absWorkingDir: target,
      outdir: "dist",
      bundle: true,
      minify: true,
      format: "esm",
      target: "es2022",
      sourcemap: true,
      sourcesContent: false, // src/ is in the package
      metafile: true,
      logLevel: "warning",
      ...entry,
    });
    for (const file of Object.keys(metafile.inputs)) if (file.startsWith("src/")) used.add(file);
  };
  // Beside the public names, what the sub-paths share with them.
  await writeFile(
    join(target, "src", "package.js"),
    `export * from "./index.js";
export { DecoderWorker, asDetokError, base, decoderWorker, socketUrl } from "./decoder.js";
export { checked } from "./options.js";
export { startWorker } from "./worker-start.js";
`,
  );
  await bundle({
    entryPoints: [{ in: "src/package.js", out: "index" }],
    external: ON_DEMAND.map((file) => `./${file}`),
  });
  const shared = new Set([...used].map((file) => `./${basename(file)}`));
  const subPaths = {
    entryPoints: adapters.filter((file) => file !== SOCKET).map((file) => join("src", file)),
    external: Object.keys(manifest.peerDependencies ?? {}),
    plugins: [
      {
        name: "shared",
        /** @param {import("esbuild").PluginBuild} build */
        setup: ({ onResolve }) =>
          onResolve({ filter: /^\.\// }, ({ path, kind }) => {
            if (shared.has(path)) return { path: "./index.js", external: true };
            // The hooks share a file that is a sub-path too.
            return path === "./store.js" && kind !== "entry-point" ? { path, external: true } : {};
          }),
      },
    ],
  };
  await bundle(subPaths);
  await bundle({ entryPoints: [WORKER, SOCKET].map((file) => join("src", file)), banner: LONG });
  await buildServer(target, {
    entryPoints: [{ in: join(target, "src", "package.js"), out: "index" }],
    outdir: join(target, "node"),
  });
  const forServers = Object.values(manifest.exports).flatMap(({ node }) => node ?? []);
  await bundle({
    ...subPaths,
    entryPoints: forServers
      .map((file) => `src/${basename(file)}`)
      .filter((file) => !file.endsWith("/index.js")),
    outdir: "node",
    sourcemap: false,
  });
  await rm(join(target, "hosts"), { recursive: true });
  for (const file of await readdir(join(target, "src")))
    if (!used.has(`src/${file}`)) await rm(join(target, "src", file));

  const settings = {
    extends: join(root, "tsconfig.json"),
    files: ["index.js", WORKER, ...adapters].map((file) => join(root, "web", "src", file)),
    include: [],
    compilerOptions: {
      noEmit: false,
      emitDeclarationOnly: true,
      declaration: true,
      rootDir: join(root, "web", "src"),
      outDir: join(target, "dist"),
    },
  };
  await writeFile(join(target, "types.json"), JSON.stringify(settings));
  execFileSync(
    "node",
    [join(root, "node_modules/typescript/bin/tsc"), "-p", join(target, "types.json")],
    { stdio: "inherit" },
  );
  await rm(join(target, "types.json"));
  for (const file of await readdir(join(target, "dist")))
    if (file.endsWith(".d.ts")) {
      const path = join(target, "dist", file);
      await writeFile(path, HEAD + (await readFile(path, "utf8")) + (TAILS[file] ?? ""));
    }

  await cp(join(root, "web", "bin"), join(target, "bin"), { recursive: true });
  await cp(join(root, "conformance", "cases.json"), join(target, "bin", "cases.json"));
  // The entries for tests run in Node, as they are.
  await cp(join(root, "web", "kit"), join(target, "kit"), { recursive: true });
  for (const name of MICROPYTHON)
    await cp(join(root, ".build", "runtime", name), join(target, "runtime", name));
  await finish(target, "web", manifest);
}

/** @param {string} target  The folder of the package with Pyodide, new. */
async function stagePyodide(target) {
  for (const name of PYODIDE) await cp(join(root, ".build", "runtime", name), join(target, name));
  // The Python of the kit, which is compiled for this Pyodide and its library.
  await cp(join(root, ".build", "kit.zip"), join(target, "kit.zip"));
  const folder = join("packages", OTHER);
  await finish(target, folder, await manifestOf(folder));
}

/** Pack a folder. @param {string} folder */
function pack(folder) {
  const packed = execFileSync("npm", ["pack", "--json", "--pack-destination", place], {
    cwd: folder,
    encoding: "utf8",
  });
  const [{ filename, size, unpackedSize }] = JSON.parse(packed);
  return { file: join(place, filename), bytes: size, unpacked: unpackedSize };
}

const place = resolve(process.argv[2] ?? join(root, "dist"));
await mkdir(place, { recursive: true });
const folder = await mkdtemp(join(tmpdir(), "detok-web-"));
try {
  const [library, pyodide] = ["library", "pyodide"].map((name) => join(folder, name));
  for (const each of [library, pyodide]) await mkdir(each);
  await stage(library);
  await stagePyodide(pyodide);
  const licences = await readFile(join(library, "THIRD-PARTY.md"), "utf8");
  const single = await buildSingle(
    join(root, "web"),
    join(library, "runtime"),
    `detok-web ${version}, Apache-2.0. MicroPython, (c) 2013-2026 Damien P. George, and the runtime library of\nEmscripten, (c) 2010-2014 Emscripten authors, under this licence:\n\n${licences.split(/^## /m)[1]}`,
  );
  await writeFile(join(place, `detok-web-${version}.js`), single);
  const parts = await Promise.all(
    ["index.js", WORKER].map((file) => readFile(join(library, "dist", file))),
  );
  const javascript = parts.reduce((sum, part) => sum + gzipSync(part, { level: 9 }).length, 0);
  console.log(
    JSON.stringify({
      ...pack(library),
      javascript,
      single: gzipSync(single, { level: 9 }).length,
      pyodide: pack(pyodide),
    }),
  );
} finally {
  await rm(folder, { recursive: true, force: true });
}
