/**
 * The folder of Pyodide's files, relative to that of MicroPython's. A bridge and a clone have both
 * in one folder. The npm package has another form of this file (tools/package_web.mjs).
 */

export const FOLDER = "./";
