/** Shows the files of an example beside it, as an app has them; in the chat, after a click. */

const aside = document.createElement("aside");
aside.className = "source";
aside.setAttribute("aria-label", "Source");
/** @type {Set<string>} */
const shown = new Set();

/**
 * The text with names of packages in place of addresses of the bridge, and without the lines that
 * only this page needs.
 * @param {string} text
 */
const asWritten = (text) =>
  text
    .replace(/^<link rel="icon".*\n/m, "")
    .replace(/^.*(source\.js|source\.css|modulepreload|show-source).*\n/gm, "")
    .replace(/ \/\/ "detok-web[^"]*"/g, "")
    .replace(/src="built\/([\w-]+)\.js"/g, 'src="$1.jsx"')
    .replace(/"\/examples\/built\/([\w-]+)\.js"/g, '"./$1.js"')
    .replace(/"\/src\/([\w-]+)\.js"/g, (_, name) =>
      name === "index" ? '"detok-web"' : `"detok-web/${name}"`,
    );

/** Show a file, and those that it imports or fetches. @param {string} file */
async function show(file) {
  if (shown.has(file)) return;
  shown.add(file);
  const text = asWritten(await (await fetch(file)).text());
  const row = document.createElement("div");
  row.className = "file";
  const name = document.createElement("h2");
  name.textContent = file;
  const copy = document.createElement("button");
  copy.type = "button";
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
  const others = [...text.matchAll(/(?:fetch\(|from )"(?:\.\/)?([\w-]+\.(?:py|js))"/g)];
  for (const [, other = ""] of others) await show(other);
}

async function showAll() {
  const page = location.pathname.split("/").at(-1) || "index.html";
  const files = [...document.querySelectorAll("script[src], link[rel=stylesheet]")]
    .map((one) => one.getAttribute("src") ?? one.getAttribute("href") ?? "")
    .filter((file) => !/^\/|source|examples\.css/.test(file))
    .map((file) => file.replace(/^built\/(.*)\.js$/, "$1.jsx"));
  const scripts = files.filter((file) => !file.endsWith(".css"));
  for (const file of new Set([page, ...scripts, ...files])) await show(file);
}

const button = document.getElementById("show-source");
if (button)
  button.addEventListener("click", async () => {
    const open = document.documentElement.classList.toggle("with-source");
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Hide source" : "Source";
    if (!open) return aside.remove();
    document.body.append(aside);
    await showAll();
  });
else {
  await showAll();
  document.body.append(aside);
}

export {}; // a module, in which await may stand
