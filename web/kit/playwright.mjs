// The regression kit for Playwright Test: `import { test, expect } from "detok-web/playwright"`.
//
// In: the pages of a test. Out: a test that fails if a broken glyph was shown, with the report of
// `detok check` as its attachments. All rules, waits and messages are those of detok_py.glyphs,
// which runs in this process (python.mjs).

import { test as base, expect as baseExpect } from "@playwright/test";
import { ChaosProxy } from "./proxy.mjs";
import { attempt, run, startPython, wrap } from "./python.mjs";

const watches = new WeakMap();
const tests = new WeakMap(); // contexts → the info of their test, and back
const proxies = new WeakMap(); // the info of a test → its fixture `chaos`
const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const JUDGING = [
  "within",
  "exclude",
  "ignore",
  "allowLiteral",
  "screenshots",
  "maxLate",
  "markdown",
];
/** The options that each method takes. */
const TAKES = {
  settle: ["quietMs", "timeoutMs", "leastMs"],
  findings: ["include", "exclude"],
  text: ["within"],
  result: [...JUDGING, "truth", "sent", "times", "tofu"],
  expectClean: [...JUDGING, "strict"],
  expectText: ["within"],
};
/** Refuse an option that a method does not take. */
const known = (method, options) => {
  const names = TAKES[method];
  for (const name of Object.keys(options ?? {}))
    if (!names.includes(name))
      throw new TypeError(`${method} has no option ${name}; it takes ${names.join(", ")}.`);
  return options;
};
/** Options as Python's named arguments. */
const named = (python, options) =>
  Object.fromEntries(
    Object.entries(options ?? {})
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [snake(name), Array.isArray(value) ? python.toPy(value) : value]),
  );

/**
 * Every broken glyph that the pages of a context have shown. playwright.d.ts says what each method
 * does.
 */
export class GlyphWatch {
  #python;
  #watch;
  #options;
  #info;

  /** The watch of a context; each context has one. */
  static async of(context, options = {}, info = undefined) {
    if (!watches.has(context)) {
      const python = await startPython();
      const watch = new GlyphWatch();
      watch.#python = python;
      watch.#options = options;
      watch.#info = info;
      watch.#watch = python.globals
        .get("NodeWatch")
        .callKwargs(wrap(python, context), { mode: options.mode === "off" ? "off" : "error" });
      const chaos = proxies.get(tests.get(context));
      if (chaos) watch.follow(chaos);
      watches.set(context, watch);
      await run(watch.#watch.install());
    }
    return watches.get(context);
  }

  /** Whether a method has judged the pages. */
  get asked() {
    return this.#watch.asked;
  }

  /** @param {ChaosProxy} chaos */
  follow(chaos) {
    this.#watch.traffic = chaos.traffic;
  }

  async settle(options = {}) {
    const { quietMs = 800, timeoutMs = 30_000, leastMs = 0 } = known("settle", options);
    return run(this.#watch.settle(quietMs, timeoutMs, leastMs));
  }

  async findings(options = {}) {
    const { include, exclude } = known("findings", options);
    const found = await run(this.#watch.findings(include, exclude));
    return JSON.parse(this.#python.globals.get("as_findings")(found));
  }

  async text(options = {}) {
    const { within } = known("text", options);
    return run(this.#watch.text(within));
  }

  async result(given = {}) {
    const { within, ...options } = known("result", given);
    return this.#judged(() => this.#watch.result.callKwargs(within, named(this.#python, options)));
  }

  async expectClean(given = this.#options.expect) {
    const { within, strict, maxLate, ...rest } = { ...known("expectClean", given) };
    const options = named(this.#python, { screenshots: true, ...rest });
    const result = await this.#judged(() =>
      this.#watch.clean_result.callKwargs(within, !!strict, maxLate, options),
    );
    if (result.violations.length || result.incomplete.length) await this.#attach(result);
    if (result.violations.length) this.#fail(this.#said("sentence", result));
    else if (this.#options.mode !== "off") this.#warn(this.#said("doubt", result));
    return result;
  }

  async expectText(trueText, options = {}) {
    const { within } = known("expectText", options);
    try {
      await run(this.#watch.expect_text.callKwargs(trueText, named(this.#python, { within })));
    } catch (error) {
      if (error.name !== "AssertionError") throw error;
      this.#fail(error.message);
    }
  }

  clear() {
    this.#watch.clear();
  }

  /** The verdict as the HTML page that `detok check --html` writes. */
  html(result) {
    return this.#said("as_html", result);
  }

  /** The verdict as the JSON that `detok check --json` writes. */
  json(result) {
    return this.#said("as_json", result);
  }

  async #judged(steps) {
    const result = await run(attempt(steps));
    return JSON.parse(this.#python.globals.get("report").as_json(result));
  }

  #said(writer, result) {
    const report = this.#python.globals.get("report");
    return report[writer](this.#python.globals.get("as_result")(JSON.stringify(result)));
  }

  async #attach(result) {
    if (!this.#info) return;
    for (const [kind, type] of [
      ["json", "application/json"],
      ["html", "text/html"],
    ])
      await this.#info.attach(`glyphs.${kind}`, { body: this[kind](result), contentType: type });
  }

  #warn(sentence) {
    if (!sentence) return;
    this.#info?.annotations.push({ type: "glyphs", description: sentence });
    console.warn(sentence);
  }

  #fail(sentence) {
    if (this.#options.mode === "off") return;
    if (this.#options.mode === "warn") return this.#warn(sentence);
    const error = new Error(sentence);
    error.name = "AssertionError";
    throw error;
  }
}

/** Judge what a test has shown, if it has not done so itself and has not failed. */
const judge = async (watch, info) => {
  if (!watch.asked && info.errors.length === 0) await watch.expectClean();
};

export const test = base.extend({
  glyphs: [{}, { option: true }],
  chaosOptions: [{}, { option: true }],

  context: async ({ context, glyphs }, use, info) => {
    tests.set(context, info).set(info, context);
    if (!glyphs.everyTest || glyphs.mode === "off") return use(context);
    const watch = await GlyphWatch.of(context, glyphs, info);
    await use(context);
    await judge(watch, info);
  },

  // It asks for `chaos` to be judged before the proxy closes.
  glyphWatch: async ({ context, glyphs, chaos }, use, info) => {
    const watch = await GlyphWatch.of(context, glyphs, info);
    watch.follow(chaos);
    await use(watch);
    await judge(watch, info);
  },

  // Without `context`: the address or the proxy of a context may be this proxy's.
  chaos: async ({ glyphs, chaosOptions }, use, info) => {
    const chaos = new ChaosProxy(await startPython(), chaosOptions);
    const watch = () => watches.get(tests.get(info));
    proxies.set(info, chaos);
    watch()?.follow(chaos);
    try {
      await use(chaos);
      if (glyphs.everyTest && glyphs.mode !== "off" && watch()) await judge(watch(), info);
    } finally {
      await chaos.close();
    }
  },
});

/** Make a matcher for pages of a method that throws an AssertionError. */
const matcher = (name, judge) =>
  async function (page, ...words) {
    let said;
    try {
      await judge(await GlyphWatch.of(page.context()), ...words);
    } catch (error) {
      if (error.name !== "AssertionError") throw error;
      said = error.message;
    }
    return { name, pass: !said, message: () => said ?? `Expected the page to fail ${name}.` };
  };

export const expect = baseExpect.extend({
  toShowNoBrokenGlyph: matcher("toShowNoBrokenGlyph", (watch, options) =>
    watch.expectClean(options ?? {}),
  ),
  toShowText: matcher("toShowText", (watch, text, options) => watch.expectText(text, options)),
});
