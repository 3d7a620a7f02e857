// `npx detok-web check URL`: what `detok check` does, with the same options, in Node.
//
// In: the words of the command line. Out: its exit code: 0 if clean, 1 for violations, 2 if it
// could not run or there was no answer to test.

import { accessSync, constants, existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, dirname, join, resolve } from "node:path";
import { ChaosProxy } from "./proxy.mjs";
import { inWords, run, startPython, wrap } from "./python.mjs";

function which(name) {
  for (const folder of name.includes("/") ? [""] : (process.env.PATH ?? "").split(delimiter)) {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return resolve(folder, name);
    } catch {
      // not there
    }
  }
  return undefined;
}

const version = () => createRequire(import.meta.url)("@playwright/test/package.json").version;

/** Open a page in a new context, and watch it. */
async function open(python, browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const watch = python.globals.get("NodeWatch")(wrap(python, context));
  await run(watch.install());
  return { watch, page: wrap(python, await context.newPage()) };
}

/** @param {string[]} words */
export async function check(words) {
  try {
    const python = await startPython();
    python.setStdout({ batched: (line) => console.log(line) });
    python.setStderr({ batched: (line) => console.error(line) });
    const args = python.globals.get("arguments_of")(python.toPy(words));
    if (typeof args === "number") return args;
    return await judge(python, args);
  } catch (error) {
    console.error(`detok-web: ${inWords(error).message}`);
    return 2;
  }
}

async function judge(python, args) {
  const [drive, options, report] = ["drive", "options", "report"].map((name) =>
    python.globals.get(name),
  );
  if (!args.url || args.itself)
    throw new Error("Which page? Give its address: npx detok-web check http://127.0.0.1:3000.");
  const files = ["json", "junit", "html"].filter((form) => args[form]);
  for (const form of files)
    if (args[form] !== "-" && !existsSync(dirname(resolve(args[form]))))
      throw new Error(`${args[form]} cannot be written: its folder does not exist.`);
  const read = (reader, name) =>
    name && options[reader](python.toPy(Uint8Array.from(readFileSync(name))).tobytes(), name);
  const truth = read("true_text", args.text);
  const steps = args.script && options.steps_of(read("text_of_file", args.script), args.script);
  const playwright = await import("@playwright/test").catch(() => {
    throw new Error("Playwright is not installed here: npm install --save-dev @playwright/test.");
  });
  const cuts = options.cuts(args)?.toJs({ dict_converter: Object.fromEntries });
  const chaos = cuts && new ChaosProxy(python, { ...cuts, delay: cuts.delay * 1000 });
  const kind = playwright[args.browser];
  let browser;
  try {
    const server = chaos && (await chaos.listen(args.upstream, args.listen ?? 0));
    const launch = drive
      .launch_options(
        args,
        server,
        existsSync(kind.executablePath()),
        (name) => process.env[name],
        which,
      )
      .toJs({ dict_converter: Object.fromEntries });
    const {
      executable_path: executablePath,
      firefox_user_prefs: firefoxUserPrefs,
      ...rest
    } = launch;
    browser = await kind.launch({ ...rest, executablePath, firefoxUserPrefs });
    const { watch, page } = await open(python, browser).catch((error) => {
      throw new Error(String(drive.unfit(args.browser, browser.version(), version(), error)));
    });
    const result = await run(
      drive.drive(watch, page, drive.Check(args, args.url, truth, steps, chaos?.traffic)),
    );
    for (const form of files) {
      const text = report[`as_${form}`](result);
      if (args[form] === "-") process.stdout.write(text);
      else writeFileSync(args[form], text);
    }
    if (!files.some((form) => args[form] === "-")) console.log(drive.summary(result));
    return drive.exit_code(result);
  } finally {
    await browser?.close();
    await chaos?.close();
  }
}
