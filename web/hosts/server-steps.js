/**
 * step-table.js for Node, Deno and Bun: Python is in the process, so a step that is not known yet
 * is asked for at once, and no text is late.
 */

import { decoderWorker } from "../src/decoder.js";
import { StepTable, crossing, find as findKnown } from "../src/step-table.js";

export {
  State,
  StepTable,
  contentOf,
  decode,
  halfSymbol,
  look,
  plain,
  stepTable,
} from "../src/step-table.js";

// Asking ahead would keep everything else in the process waiting.
const { prototype } = StepTable;
prototype.ahead = prototype.readTexts = async () => {};

/**
 * The step from a state by a symbol; undefined while Python boots, or boots again.
 * @param {import("../src/step-table.js").State} state
 * @param {import("../src/step-table.js").Sym}
 *   symbol
 */
export function find(state, symbol) {
  const step = findKnown(state, symbol);
  const { table } = state;
  if (step || !table) return step;
  try {
    const { ask } = /** @type {any} */ (decoderWorker(table.options).worker);
    const [said] = ask("walk", table.told, ...crossing(state), JSON.stringify([symbol]));
    return table.note(state, symbol, said);
  } catch {
    return undefined; // asked again the slow way, of a Python that is whole
  }
}
