import { loadPyodide } from "/runtime/pyodide.mjs";

const python = await loadPyodide({ indexURL: "/runtime/", packages: ["micropip"] });
await python.runPythonAsync(await (await fetch("python.py")).text());
