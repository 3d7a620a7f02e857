/**
 * The names of the single file: those of detok-web, and the main ones of its sub-paths for pages.
 */

export { DetokText, define } from "../src/element.js";
export { readAnswer } from "../src/fetch.js";
export * from "../src/index.js";
