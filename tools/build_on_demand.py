"""Build .build/runtime/detok_captures.bin: the modules that a page loads when it opens or saves a
file.

In: the folders of detok_py that run in "Pyodide on demand" (tools/layout.py), with their JSON. Out:
the file: one line of JSON, [[name, size], …], and the files one after another, as `extend` of
detok_py/page/streams.py takes them. Both runtimes read it, so it has sources and no bytecode.
"""

import json
import sys
from pathlib import Path

import browser_wheel
import layout

RUNTIME = Path(__file__).resolve().parents[1] / ".build" / "runtime"
NAME = "detok_captures.bin"
LAST = "captures/page.py"


def bundle() -> bytes:
    """Return the file."""
    paths = {
        path.relative_to(layout.PACKAGE).as_posix(): path
        for path in layout.files("Pyodide on demand")
    }
    sources = {
        name: browser_wheel.bare(path.read_text(encoding="utf-8")).encode()
        for name, path in sorted(paths.items(), key=lambda item: (item[0] == LAST, item[0]))
    }
    for path in sorted(
        {path for folder in paths.values() for path in folder.parent.glob("*.json")}
    ):
        data = json.loads(path.read_text(encoding="utf-8"))
        name = path.relative_to(layout.PACKAGE).as_posix()
        sources = {name: json.dumps(data, separators=(",", ":")).encode(), **sources}
    head = json.dumps([[name, len(data)] for name, data in sources.items()], separators=(",", ":"))
    return head.encode() + b"\n" + b"".join(sources.values())


def main() -> int:
    (RUNTIME / NAME).write_bytes(bundle())
    return 0


if __name__ == "__main__":
    sys.exit(main())
