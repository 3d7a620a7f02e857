/**
 * The first content of "Your text". It has parts that a decoder of bytes does not handle.
 */

/**
 * Reasoning, characters of two to four bytes, a � that is text, and a stop string after two false
 * beginnings of it.
 */
export const DEFAULT_TEXT = `<think>Which letters are more than one byte? ü, ї, ท and 你.</think>Grüße! Привіт, สวัสดี, 你好 👩‍🚀 and 🇺🇦: each is whole when it is shown. A model may also write � itself.
S, ST and STO wait, because they may become STOP. This is never shown.`;
export const DEFAULT_STOP = "STOP.";
