import { loadPyodide } from "/runtime/pyodide.mjs";

const python = await loadPyodide({ indexURL: "/runtime/" });
await python.loadPackage("micropip", { checkIntegrity: false }); // the same version, from PyPI: other bytes than Pyodide's own
await python.runPythonAsync(await (await fetch("python.py")).text());
