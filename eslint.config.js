// Which mistakes the linter looks for; how lines break is Prettier's business.
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
      "object-shorthand": "error",
      "no-implied-eval": "error",
      "no-unused-vars": ["error", { args: "none", caughtErrors: "none", ignoreRestSiblings: true }],
    },
  },
];
