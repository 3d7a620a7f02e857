// Draw the documents and the reference of detok-web as HTML: `node tools/site/draw.mjs FOLDER`
// (TypeDoc).
//
// In: docs/README.md, whose headings group the documents and whose links order them;
// web/package.json, whose `exports` are the modules; their types and comments. Out: pages with
// relative links, a search, and no file from elsewhere. Ends with 1 if a public name has no
// comment, a link has no target, or TypeDoc warns of anything else.

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(dirname(here));
const tools = join(root, ".build", "docs", "node_modules", "typedoc", "dist", "index.js");
const {
  Application,
  Comment,
  Converter,
  IndexEvent,
  JSX,
  KindRouter,
  OptionDefaults,
  ReflectionKind,
  TSConfigReader,
} = await import(pathToFileURL(tools).href);

const index = join(root, "docs", "README.md");
/** The group of each document, in the order of the index. @type {Map<string, string>} */
const groups = new Map();
let heading = "";
for (const line of readFileSync(index, "utf8").split("\n")) {
  heading = /^## (.*)/.exec(line)?.[1] ?? heading;
  for (const [, link] of line.matchAll(/\]\(([^)#:]+\.md)\)/g)) {
    const path = resolve(dirname(index), link);
    if (!groups.has(path)) groups.set(path, heading);
  }
}
const { exports: entries } = JSON.parse(readFileSync(join(root, "web", "package.json"), "utf8"));
/** The name of each module, by its file. @type {Map<string, string>} */
const modules = new Map();
for (const [path, { types }] of Object.entries(entries))
  if (/^\.(\/[\w-]+)?$/.test(path)) {
    const file = types.replace("./dist/", "src/").replace(/^(src\/.*)\.d\.ts$/, "$1.js");
    modules.set(join(root, "web", file), `detok-web${path.slice(1)}`);
  }

/**
 * Let the search find documents by their headings, and before the names of members: a question has
 * words that many names have.
 * @param {import("typedoc").IndexEvent} event
 */
function weigh(event) {
  event.searchFieldWeights = { name: 4, comment: 1, document: 2, headings: 12 };
  event.searchResults.forEach((reflection, n) => {
    if (!reflection.isDocument()) return;
    reflection.relevanceBoost = 3;
    const text = reflection.content.map(({ text }) => text).join("");
    const [, first = ""] = /^\s*# .*\n+([^]*?)\n\n/.exec(text) ?? [];
    const headings = [...text.matchAll(/^#+ .*$/gm)].map(([line]) => line);
    event.searchFields[n] = { headings: [...headings, first].join("\n") };
  });
}

/** @param {import("typedoc").Application} app */
function adapt(app) {
  /** The file of each document; its name becomes its title. @type {Map<object, string>} */
  const files = new Map();
  app.converter.on(Converter.EVENT_CREATE_DOCUMENT, (_, document) => {
    const path = document.project.files.getReflectionPath(document);
    // A title with code in it is several parts.
    const text = document.content.map(({ text }) => text).join("");
    const [, title] = /^\s*# (.*)\n/.exec(text.replaceAll("`", ""));
    document.name = title;
    document.frontmatter.group = groups.get(path);
    files.set(document, relative(join(root, "docs"), path));
  });
  app.converter.on(Converter.EVENT_CREATE_DECLARATION, (_, reflection) => {
    if (!reflection.kindOf(ReflectionKind.Module)) return;
    const path = reflection.project.files.getReflectionPath(reflection);
    reflection.name = modules.get(path) ?? reflection.name;
    const [, header] = /^\/\*\*(.*?)\*\//s.exec(readFileSync(path, "utf8")) ?? [];
    const text = header?.replace(/^ *\* ?/gm, "").trim();
    if (text) reflection.comment ??= new Comment([{ kind: "text", text }]);
  });
  app.renderer.defineRouter(
    "documents",
    class extends KindRouter {
      /** @param {import("typedoc").Reflection} reflection @returns {string} */
      getIdealBaseName(reflection) {
        const file = files.get(reflection);
        return file
          ? file.replace(/^\.\.\//, "").replace(/\.md$/, "")
          : super.getIdealBaseName(reflection);
      }
    },
  );
  app.renderer.on(IndexEvent.PREPARE_INDEX, weigh);
  app.renderer.hooks.on("pageSidebar.begin", (context) => {
    const base = context.relativeURL("./");
    const link = (/** @type {string} */ href, /** @type {string} */ text) =>
      JSX.createElement("a", { href: base + href }, text);
    return JSX.createElement(
      "nav",
      {
        "aria-label": "detok",
        style: "display: flex; flex-wrap: wrap; gap: 0 1em; padding-bottom: 1em",
      },
      link("../index.html", "Demo"),
      link("index.html", "Documentation"),
      link("modules.html", "JavaScript"),
      link("python/index.html", "Python"),
    );
  });
}

const app = await Application.bootstrap(
  {
    name: "detok",
    tsconfig: join(here, "tsconfig.json"),
    entryPoints: [...modules.keys()],
    projectDocuments: [...groups.keys()],
    readme: index,
    router: "documents",
    out: process.argv[2],
    disableSources: true,
    blockTags: [...OptionDefaults.blockTags, "@implements"],
    includeVersion: false,
    hideGenerator: true,
    excludePrivate: true,
    excludeInternal: true,
    sort: ["kind", "alphabetical-ignoring-documents"],
    groupOrder: [...new Set(groups.values()), "Modules", "*"],
    customJs: join(here, "search.js"),
    searchInDocuments: true,
    searchInComments: true,
    navigation: { includeGroups: true, includeCategories: false, includeFolders: false },
    highlightLanguages: [
      "bash",
      "html",
      "javascript",
      "json",
      "jsx",
      "python",
      "svelte",
      "tsx",
      "typescript",
      "vue",
      "yaml",
    ],
    validation: {
      notExported: true,
      invalidLink: true,
      invalidPath: true,
      notDocumented: true,
      rewrittenLink: true,
    },
    treatWarningsAsErrors: true,
    treatValidationWarningsAsErrors: true,
  },
  [new TSConfigReader()],
);
adapt(app);
const project = await app.convert();
if (!project) process.exit(1);
app.validate(project);
await app.generateOutputs(project);
if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exit(1);

// The search (lunr 2.3.9) joins nodes of its words that have the same edges, written as a letter
// and a node's number each: "1" to 32 and "4" to 5 read as "1" to 3 and "2" to 45. So it finds
// words that no page has, and throws. A comma tells the nodes apart.
const script = join(process.argv[2], "assets", "main.js");
const parts = readFileSync(script, "utf8").split("e=e+s+o.id");
if (parts.length !== 2) throw new Error("TypeDoc's search has changed: look at its edges again");
writeFileSync(script, parts.join('e=e+s+o.id+","'));
