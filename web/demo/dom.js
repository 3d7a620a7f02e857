/**
 * Finds elements of index.html by id and type, makes others, and reads and writes the page's
 * address. A wrong id is an error when the page starts, not later.
 */

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function element(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`The page has no ${type.name} #${id}.`);
  return found;
}

/** @param {string} id */
export const button = (id) => element(id, HTMLButtonElement);

/** The parameters of the page's address, as they were when the page was loaded. */
export const address = new URLSearchParams(location.search);

/** Write a parameter into the page's address. @param {string} name @param {string} value */
export function writeParameter(name, value) {
  const url = new URL(location.href);
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  history.replaceState(null, "", url);
}

/**
 * Make an element with these properties and children.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Partial<HTMLElementTagNameMap[T]>} [its]
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, its = {}, ...children) {
  const made = Object.assign(document.createElement(tag), its);
  made.append(...children);
  return made;
}

/**
 * @param {string} label
 * @param {() => void} onclick
 * @param {Partial<HTMLButtonElement>} [its]
 */
export const makeButton = (label, onclick, its) =>
  make("button", { type: "button", onclick, ...its }, label);
