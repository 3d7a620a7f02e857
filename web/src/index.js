/** detok in a page: the public names and nothing else. Importing it does nothing; the first stream starts the worker. */

export { Answer, connect } from "./connect.js";
export { DetokError, shutDown, warmUp } from "./decoder.js";
export { DetokStream } from "./detok-stream.js";
export { graphemes } from "./graphemes.js";
export { loadVocabulary } from "./vocabulary.js";
