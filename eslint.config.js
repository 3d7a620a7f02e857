// Which mistakes the linter looks for. Prettier breaks the lines of code, but not those of
// comments.
import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: [".build/", ".venv/", "dist/", "node_modules/", "test-results/"] },
  js.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.worker, ...globals.node } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: ["error", "always"],
      "no-var": "error",
      "prefer-const": "error",
      "max-len": ["error", { code: 100000, comments: 100, ignoreUrls: true }],
      "object-shorthand": "error",
      "no-implied-eval": "error",
      "no-unused-vars": ["error", { args: "none", caughtErrors: "none", ignoreRestSiblings: true }],
    },
  },
];
