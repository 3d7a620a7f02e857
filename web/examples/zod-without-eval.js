// First of all: zod, which the SDK brings, looks whether it may compile code, and a strict CSP reports that.
globalThis.__zod_globalConfig = { jitless: true };
