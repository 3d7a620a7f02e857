import assert from "node:assert/strict";
import { test } from "node:test";
import { namesOf, visible } from "../../web/demo/characters.js";

test("invisible characters have a sign or their code point, and their name", () => {
  const text = "a \u200d\u3164\u2800\n\ufe0f\u{e0100}\0\ufffd";
  assert.equal(visible(text), "a␣‹200D›‹3164›‹2800›⏎‹FE0F›‹E0100›‹0000›\ufffd");
  assert.deepEqual(namesOf(`${text}\u200d`), [
    "U+200D ZERO WIDTH JOINER",
    "U+3164 HANGUL FILLER",
    "U+2800 BRAILLE PATTERN BLANK",
    "U+FE0F VARIATION SELECTOR-16",
    "U+E0100 VARIATION SELECTOR-17",
    "U+0000 NULL",
    "U+FFFD REPLACEMENT CHARACTER",
  ]);
});
