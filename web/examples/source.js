/** Shows the files of an example beside it, as a reader writes them. */

const page = location.pathname.split("/").at(-1) ?? "";
const scripts = [...document.querySelectorAll("script[src]")]
  .map((script) => script.getAttribute("src") ?? "")
  .filter((src) => !src.startsWith("/") && src !== "source.js")
  .map((src) => src.replace(/^built\/(.*)\.js$/, "$1.jsx"));
const aside = document.createElement("aside");
aside.className = "source";
aside.setAttribute("aria-label", "Source");

/**
 * The text with names of packages in place of addresses of the bridge, and without the line that
 * is for this page.
 * @param {string} text
 */
const asWritten = (text) =>
  text
    .replace(/^<link rel="icon".*\n/m, "")
    .replace(/ \/\/ "detok-web[^"]*"/g, "")
    .replace(/src="built\/([\w-]+)\.js"/g, 'src="$1.jsx"')
    .replace(/"\/src\/([\w-]+)\.js"/g, (_, name) =>
      name === "index" ? '"detok-web"' : `"detok-web/${name}"`,
    );

/** @param {string} file */
async function show(file) {
  const text = asWritten(await (await fetch(file)).text());
  const row = document.createElement("div");
  row.className = "file";
  const name = document.createElement("h2");
  name.textContent = file;
  const copy = document.createElement("button");
  copy.textContent = "Copy";
  copy.setAttribute("aria-label", `Copy ${file}`);
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  });
  row.append(name, copy);
  const code = document.createElement("pre");
  code.tabIndex = 0;
  code.setAttribute("aria-label", file);
  code.setAttribute("role", "group");
  code.textContent = text;
  aside.append(row, code);
  for (const [, other = ""] of text.matchAll(/fetch\("([\w-]+\.py)"\)/g)) await show(other);
}

for (const file of [page, ...scripts]) await show(file);
document.body.append(aside);

export {}; // a module, in which await may stand
