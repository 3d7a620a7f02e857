// Runs the Python of the regression kit in Node: detok_py.glyphs as `detok check` runs it, in the
// shipped Pyodide.
//
// In: Playwright's objects. Out: `startPython()`, and `run(steps)`, which makes the calls that a
// generator of watch.py yields. Held: one interpreter for each process. Its memory after the start
// is kept in node_modules/.cache/; with it later processes start three times as fast.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";

/**
 * Where Pyodide is, and the Python that the kit adds to it: in a clone, or in the package
 * detok-web-pyodide.
 */
function places() {
  const runtime = new URL("../../.build/runtime/", import.meta.url);
  if (existsSync(new URL("pyodide.mjs", runtime)))
    return { folder: runtime, kit: new URL("../kit.zip", runtime) };
  const require = createRequire(import.meta.url);
  const { version } = require("../package.json");
  let manifest;
  try {
    manifest = require.resolve("detok-web-pyodide/package.json");
  } catch {
    // It is not installed.
  }
  const found = manifest && require(manifest).version;
  if (found !== version)
    throw new Error(
      `The regression kit runs in Pyodide, of a package of its own, and ${found ? `its version ${found}` : "none"} is installed: ` +
        `npm install --save-dev detok-web-pyodide@${version}`,
    );
  const folder = new URL(".", pathToFileURL(manifest));
  return { folder, kit: new URL("kit.zip", folder) };
}

// Imported before the memory is saved, so that it contains these modules.
const IMPORTS = `
import sys
sys.path.append("/kit.zip")
import detok_py
detok_py.__path__.append("/kit.zip/detok_py")
import encodings
encodings.__path__.append("/kit.zip/encodings")
import argparse, json, encodings.cp1252
from detok_py.glyphs import drive, messages, options, report, traffic, watch
from pyodide.ffi import to_js

class NodeWatch(watch.GlyphWatch):
    def _run(self, steps):
        return steps  # JavaScript makes the calls

def pieces(cut, data):
    """Yield each piece that the proxy sends for these bytes, and whether it then pauses."""
    for piece, pause in cut(data.to_bytes()):
        yield to_js([piece, pause])

def heard(hear, data):
    hear(data.to_bytes())

def as_findings(found):
    return json.dumps([{name: value for name, value in one.items() if name not in ("frame", "page")} for one in found])

def arguments_of(words):
    parser = argparse.ArgumentParser("detok-web check", description="Find broken glyphs in a chat page.")
    options.add_arguments(parser)
    try:
        return parser.parse_args(words)
    except SystemExit as end:
        return end.code

def as_result(text):
    return json.loads(text)
`;

let started;
/** The interpreter of this process; the first call starts it. */
export const startPython = () => (started ??= quickly(start));

/**
 * Start without V8's optimising compiler, which takes more time than the start itself. Code that
 * runs for long is then a third slower.
 * @template T
 * @param {() => Promise<T>} act
 */
async function quickly(act) {
  setFlagsFromString("--liftoff-only");
  try {
    return await act();
  } finally {
    setFlagsFromString("--no-liftoff-only");
  }
}

async function start() {
  const { folder, kit: file } = places();
  const kit = readFileSync(file);
  const { loadPyodide, version } = await import(new URL("pyodide.mjs", folder).href);
  const core = JSON.parse(readFileSync(new URL("python_core.json", folder), "utf8"));
  const options = {
    indexURL: fileURLToPath(folder),
    stdLibURL: fileURLToPath(new URL("python_core.zip", folder)),
    packageBaseUrl: fileURLToPath(folder),
    lockFileContents: { info: core.info, packages: {} },
  };
  const sum = createHash("sha256")
    .update(kit)
    .update(core.sha256 + version + process.version + IMPORTS);
  const cache = join(process.cwd(), "node_modules", ".cache", "detok-web");
  const kept = join(cache, `python-${sum.digest("hex").slice(0, 16)}.bin`);
  let python;
  try {
    const memory = readFileSync(kept);
    const _loadSnapshot = memory.buffer.slice(memory.byteOffset, memory.byteOffset + memory.length);
    python = await loadPyodide({ ...options, _loadSnapshot, _snapshotDeserializer: () => null });
    python.FS.writeFile("/kit.zip", kit);
    python.runPython("assert as_result('1') == 1");
    return python;
  } catch {
    // Nothing is kept yet, or it is damaged.
  }
  const keeps = existsSync(join(process.cwd(), "node_modules"));
  python = await loadPyodide({ ...options, _makeSnapshot: keeps });
  python.FS.writeFile("/kit.zip", kit);
  python.runPython(IMPORTS);
  if (keeps) {
    try {
      mkdirSync(cache, { recursive: true });
      for (const old of readdirSync(cache)) rmSync(join(cache, old), { force: true });
      // Renamed when it is whole: another process never reads half of it.
      writeFileSync(`${kept}.${process.pid}`, python.makeMemorySnapshot());
      renameSync(`${kept}.${process.pid}`, kept);
    } catch {
      // The disk is full or read-only: the next process starts without a memory.
    }
  }
  return python;
}

// The names of what is an attribute in Python's Playwright and a method in JavaScript's.
const ATTRIBUTES = new Set(
  "context pages frames url mainFrame parentFrame browser browserType name viewportSize last request resourceType status statusText".split(
    " ",
  ),
);
const ORIGINAL = Symbol("original");
const camel = (name) =>
  name.replace("new_cdp", "newCDP").replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
const functions = new Map();
const wrapped = new WeakMap(); // so that the same object in JavaScript is the same in Python

/** A script of Python for `evaluate`: a text, or a function if the text is one. */
function scriptOf(text) {
  const code = text.replace(/^(\s*\/\/.*\n)+/, "").replace(/[\s;]+$/, "");
  if (code.endsWith(")()")) return code;
  if (!functions.has(code)) functions.set(code, new Function(`return (${code})`)());
  return functions.get(code);
}

/**
 * An object of Playwright, with the names that it has in Python.
 * @param {any} python
 * @param {any} value
 */
export function wrap(python, value) {
  if (value === null || value === undefined) return undefined; // JavaScript's null is not None
  if (typeof value !== "object") return value;
  if (typeof value.then === "function") return value.then((found) => wrap(python, found));
  if (Array.isArray(value)) return value.map((one) => wrap(python, one));
  if (value instanceof Uint8Array) return python.toPy(Uint8Array.from(value)); // Pyodide knows no Buffer
  if (Object.getPrototypeOf(value) === Object.prototype) return python.toPy(value);
  const given = (argument) => {
    if (argument?.[ORIGINAL]) return argument[ORIGINAL];
    if (argument instanceof python.ffi.PyCallable) {
      const kept = argument.copy();
      return (...words) => kept(...words.map((word) => wrap(python, word)));
    }
    if (argument instanceof python.ffi.PyProxy)
      return argument.toJs({ dict_converter: Object.fromEntries });
    if (Object.getPrototypeOf(argument ?? 0) !== Object.prototype) return argument;
    // Python's named arguments
    return Object.fromEntries(
      Object.entries(argument).map(([name, one]) => [camel(name), given(one)]),
    );
  };
  if (wrapped.has(value)) return wrapped.get(value);
  const proxy = new Proxy(value, {
    has: (target, key) => (typeof key === "string" ? camel(key) : key) in target,
    get(target, key) {
      if (key === ORIGINAL) return target;
      const name = typeof key === "string" ? camel(key) : key;
      const found = target[name];
      if (typeof found !== "function") return typeof key === "string" ? wrap(python, found) : found;
      if (ATTRIBUTES.has(name)) return wrap(python, found.call(target));
      return (...words) => {
        if (name === "evaluate") words[0] = scriptOf(words[0]);
        try {
          return wrap(python, found.apply(target, words.map(given)));
        } catch (error) {
          return Promise.reject(error); // thrown here, it would become an error of Python
        }
      };
    },
  });
  wrapped.set(value, proxy);
  return proxy;
}

/** The browser's error, if this one is Python's wrapper of it. @param {any} error */
function thrown(error) {
  const found = /pyodide\.ffi\.JsException: (?:(\w*Error): )?([^]*)$/.exec(error?.message);
  return found ? Object.assign(new Error(found[2].trim()), { name: found[1] ?? "Error" }) : error;
}

/**
 * Make the calls that a generator of Python yields, and return what it returns.
 * @param {any} steps
 */
export async function run(steps) {
  let answer;
  let failure;
  try {
    for (;;) {
      const { done, value: call } = failure ? steps.throw(failure) : steps.next(answer);
      if (done) return call;
      answer = failure = undefined;
      try {
        answer = await call();
      } catch (error) {
        failure = thrown(error);
      }
      call.destroy?.();
    }
  } catch (error) {
    throw inWords(error);
  } finally {
    steps.destroy();
  }
}

/**
 * An error of Python as one of JavaScript, with its message and without the interpreter's stack.
 * @param {any} error
 */
export function inWords(error) {
  const text = String(error?.message ?? error);
  if (!text.startsWith("Traceback")) return error;
  const [, kind, words] =
    /\n(?:\w+\.)*(\w+)(?:: ([^]*))?$/.exec(text.slice(text.lastIndexOf('\n  File "') + 1)) ?? [];
  const camelled = (words ?? text).replace(/\b(max_late|allow_literal)\b/g, camel);
  const said = new Error(camelled.trim());
  said.name = kind ?? "Error";
  said.stack = `${said.name}: ${said.message}`;
  return said;
}

/**
 * Call `act`, and return what it returns. An error of Python is thrown as one of JavaScript.
 * @template T
 * @param {() => T} act
 * @returns {T}
 */
export function attempt(act) {
  try {
    return act();
  } catch (error) {
    throw inWords(error);
  }
}
