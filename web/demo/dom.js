/**
 * Finds elements of index.html by id and type. A wrong id is an error when the page starts, not
 * later.
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
