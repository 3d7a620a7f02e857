/**
 * step-table.js for Node, Deno and Bun: Python is in the process and computes an unknown step at
 * once, so no text is late.
 */

import { decoderWorker } from "../src/decoder.js";
import { StepTable, crossing, find as findKnown } from "../src/step-table.js";

export {
  State,
  StepTable,
  contentOf,
  decode,
  fromHex,
  plain,
  stepTable,
} from "../src/step-table.js";

// Asking ahead would block everything else in the process.
const { prototype } = StepTable;
prototype.ahead = prototype.readTexts = async () => {};

/**
 * The step from a state by a symbol; undefined while Python boots, or boots again.
 * @param {import("../src/step-table.js").State} state
 * @param {import("../src/step-table.js").Sym} symbol
 */
export function find(state, symbol) {
  const step = findKnown(state, symbol);
  const { table } = state;
  if (step !== undefined || !table) return step;
  try {
    const { booted, worker } = decoderWorker(table.options);
    if (!booted) return undefined;
    const { ask } = /** @type {any} */ (worker);
    const [said] = ask("walk", table.told, ...crossing(state), JSON.stringify([symbol]));
    return table.note(state, symbol, said);
  } catch {
    return undefined; // the decoder asks again later, when Python has restarted
  }
}
