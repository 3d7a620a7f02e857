"""Write web/src/event-shapes.js: the table of event shapes, for JavaScript.

In: detok_py/captures/event_shapes.json. Out: a module with the fields that web/src/read-events.js
reads. It is a module because browsers that the library supports cannot import JSON.
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "detok_py" / "captures" / "event_shapes.json"
MODULE = ROOT / "web" / "src" / "event-shapes.js"
NOT_READ = ("all", "ids", "tokens", "total")


def module() -> str:
    """Return the text of the module."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    rows = [row for api in table for row in api["rows"]]
    read = [{name: row[name] for name in row if name not in NOT_READ} for row in rows]
    return (
        "// Written by tools/event_shapes.py; the table is detok_py/captures/event_shapes.json.\n"
        '/** @type {import("./read-events.js").Row[]} */\n'
        "// prettier-ignore\n"
        f"export const ROWS = {json.dumps(read, separators=(',', ':'))};\n"
    )


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    MODULE.write_text(module(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
