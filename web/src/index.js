/**
 * The public names of detok in a page. Importing it does nothing; the first stream starts the
 * worker.
 */

export { Answer, connect } from "./connect.js";
export { createDecoder, Decoder } from "./create-decoder.js";
export { DetokError, shutDown, warmUp } from "./decoder.js";
export { DetokStream } from "./detok-stream.js";
export { graphemes } from "./graphemes.js";
export { loadVocabulary } from "./load-vocabulary.js";

/**
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 * @typedef {import("./connect.js").AnswerRequest} AnswerRequest
 * @typedef {import("./connect.js").Question} Question
 * @typedef {import("./rows.js").TokenRow} TokenRow
 * @typedef {import("./connect.js").AnswerEvents} AnswerEvents
 * @typedef {import("./connect.js").Message} Message
 * @typedef {import("./connect.js").HelloEvent} HelloEvent
 * @typedef {import("./connect.js").StartEvent} StartEvent
 * @typedef {import("./connect.js").TokenEvent} TokenEvent
 * @typedef {import("./connect.js").ResumeEvent} ResumeEvent
 * @typedef {import("./connect.js").NoticeEvent} NoticeEvent
 * @typedef {import("./connect.js").ErrorEvent} ErrorEvent
 * @typedef {import("./connect.js").Finish} Finish
 * @typedef {import("./create-decoder.js").Held} Held
 * @typedef {import("./errors.js").ErrorKind} ErrorKind
 * @typedef {import("./decoder.js").Progress} Progress
 * @typedef {import("./decoder.js").RuntimeInfo} RuntimeInfo
 * @typedef {import("./decoder.js").RuntimeOptions} RuntimeOptions
 * @typedef {import("./detok-stream.js").Call} Call
 * @typedef {import("./detok-stream.js").Delta} Delta
 * @typedef {import("./detok-stream.js").ReasoningTags} ReasoningTags
 * @typedef {import("./detok-stream.js").ToolTags} ToolTags
 * @typedef {import("./graphemes.js").Graphemes} Graphemes
 * @typedef {import("./detok-stream.js").ChunkOptions} ChunkOptions
 * @typedef {import("./detok-stream.js").StreamEnd} StreamEnd
 * @typedef {import("./detok-stream.js").StreamOptions} StreamOptions
 * @typedef {import("./detok-stream.js").TextOptions} TextOptions
 * @typedef {import("./step-table.js").Reason} Reason
 * @typedef {import("./vocabulary.js").LoadOptions} LoadOptions
 * @typedef {import("./vocabulary.js").Options} VocabularyOptions
 * @typedef {import("./vocabulary.js").Vocabulary} Vocabulary
 */

/**
 * @template {StreamOptions["output"]} [Output="text"]
 * @typedef {import("./detok-stream.js").Part<Output>} Part
 */

/**
 * @template {StreamOptions["output"]} [Output="text"]
 * @typedef {import("./create-decoder.js").Shown<Output>} Shown
 */

/**
 * @template {StreamOptions["output"]} [Output="text"]
 * @typedef {import("./create-decoder.js").Late<Output>} Late
 */

/**
 * @template {StreamOptions["output"]} [Output="text"]
 * @typedef {import("./create-decoder.js").DecoderOptions<Output>} DecoderOptions
 */
