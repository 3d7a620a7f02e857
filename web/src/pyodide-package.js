/**
 * Where Pyodide's files are, seen from the folder of MicroPython's: in that folder too, as a bridge and
 * a clone have them. In the npm package it is another package (tools/package_web.mjs).
 */

export const FOLDER = "./";
