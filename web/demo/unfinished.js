/**
 * The answer that is still coming, kept in this tab for its address. A page that is loaded again,
 * or gets a new worker, resumes it from its beginning. What the address says of how a stream is
 * shown may have changed.
 *
 * Until the bridge has confirmed the run, the page does not know whether its request arrived. It
 * then sends the request again with the same id; the bridge makes one run of the two. If the
 * browser refuses storage, the page asks anew.
 */

/** @typedef {import("./form.js").Question} Question */

const KEY = "detok-answer";

/** Parameters of the address that the reader can change while an answer is coming. */
const SHOWING = ["speed", "rule", "runtime"];

/** What the query of an address asks for. @param {string} search */
function asked(search) {
  const query = new URLSearchParams(search);
  for (const name of SHOWING) query.delete(name);
  return String(query);
}

/** @param {Question} question */
export function keepUnfinished(question) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ ...question, search: location.search }));
  } catch {
    // Storage is full or refused.
  }
}

export function forgetUnfinished() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Storage is refused, so nothing was kept.
  }
}

/** @returns {Question | undefined} */
export function recallUnfinished() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
    return kept.request?.id && asked(kept.search) === asked(location.search) ? kept : undefined;
  } catch {
    return undefined;
  }
}
