/**
 * step-table.js for Node, Deno and Bun: Python is in the process, so a step that is not known yet
 * is asked for at once, and no text is late.
 */

import { decoderWorker } from "../src/decoder.js";
import { StepTable, find as findKnown } from "../src/step-table.js";

export { State, StepTable, contentOf, halfSymbol, plain, stepTable } from "../src/step-table.js";

/** The table of each state. @type {WeakMap<import("../src/step-table.js").State, StepTable>} */
const tables = new WeakMap();

const { state: stateOf } = StepTable.prototype;
/** @param {import("../src/step-table.js").CrossedState} crossed */
StepTable.prototype.state = function (crossed) {
  const state = stateOf.call(this, crossed);
  tables.set(state, this);
  return state;
};
// Asking ahead would keep everything else in the process waiting.
StepTable.prototype.warm = async () => {};

/**
 * The step from a state by a symbol; undefined while Python boots, or boots again.
 * @param {import("../src/step-table.js").State} state
 * @param {import("../src/step-table.js").Sym}
 *   symbol
 */
export function find(state, symbol) {
  const step = findKnown(state, symbol);
  const table = tables.get(state);
  if (step || !table) return step;
  try {
    const { ask } = /** @type {any} */ (decoderWorker(table.options).worker);
    const [said] = ask("walk", table.told, state.json, JSON.stringify([symbol]));
    return table.note(state, symbol, said);
  } catch {
    return undefined; // asked again the slow way, of a Python that is whole
  }
}
