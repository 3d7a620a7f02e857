import "./kit.js";
import * as lib from "/src/index.js";
import * as decoder from "/src/decoder.js";

window.ready(lib, decoder);
