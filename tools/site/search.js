// The search of the documents finds parts of words: "to" would find every page. So the common words
// of a question are left out, unless there are no others.

const COMMON = new Set(
  "a an and are as at by can do does for from how i if in is it my of on or the this to use what when where which why with your".split(
    " ",
  ),
);
const { get, set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value") ?? {};

document.addEventListener(
  "input",
  ({ target }) => {
    if (!(target instanceof HTMLInputElement) || target.id !== "tsd-search-input") return;
    Object.defineProperty(target, "value", {
      configurable: true,
      get() {
        const text = get?.call(this) ?? "";
        const words = text.split(" ").filter((word) => !COMMON.has(word.toLowerCase()));
        return words.join(" ") || text;
      },
      set(text) {
        set?.call(this, text);
      },
    });
  },
  { capture: true },
);
