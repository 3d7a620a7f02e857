import { decode } from "./decode.js";

const output = document.querySelector("output");
void decode("/bytes.detok", (text) => (output.textContent = text));
