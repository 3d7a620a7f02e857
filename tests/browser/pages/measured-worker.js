/** The library's worker, and an answer to the question how much memory Python has taken. */

import "./watched-memory.js";
import "/src/decoder-worker.js";
