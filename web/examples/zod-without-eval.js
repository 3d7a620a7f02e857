globalThis.__zod_globalConfig = { jitless: true }; // Load this first: zod would probe for eval.
