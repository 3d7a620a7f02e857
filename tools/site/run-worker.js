// Python for the examples of a document: {id, blocks} in, {id, text, whole} out, which says what
// the last block shows and whether all of them ran.

const runtime = new URL("../runtime/", import.meta.url).href;

/** @param {string} file @returns {Promise<string>} */
async function read(file) {
  const answer = await fetch(new URL(file, import.meta.url));
  if (!answer.ok) throw new Error(`${file} could not be read (HTTP ${answer.status}).`);
  return answer.text();
}

async function start() {
  const [{ loadPyodide }, core, program, tokenizer] = await Promise.all([
    import(`${runtime}pyodide.mjs`),
    read("../runtime/python_core.json"),
    read("run.py"),
    read("../tokenizer.json"),
  ]);
  const python = await loadPyodide({
    indexURL: runtime,
    stdLibURL: `${runtime}python_core.zip`,
    // No packages: detok_py is in this library.
    lockFileContents: { info: JSON.parse(core).info, packages: {} },
    packageBaseUrl: runtime,
  });
  python.FS.writeFile("tokenizer.json", tokenizer); // which an example loads
  python.runPython(program);
  return python.globals.get("run");
}

/** @type {Promise<any> | undefined} */
let started;

onmessage = async ({ data: { id, blocks } }) => {
  try {
    started ??= start();
    const run = await started;
    let text = "";
    let whole = true;
    for (const block of blocks) {
      const result = run(block);
      [text, whole] = result.toJs();
      result.destroy();
      if (!whole) break;
    }
    postMessage({ id, text, whole });
  } catch (error) {
    started = undefined; // the next click tries again
    postMessage({ id, text: `Python could not start: ${error}`, whole: false });
  }
};
