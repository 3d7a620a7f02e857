"""What the build backend adds to the full wheel: the page, the client library and the browser's runtime, for `detok serve`.

In a clone the bridge serves them from web/ and .build/runtime/; in an installation they are package data in detok_py/bridge/static/.
A wheel that is built where `make` has not built the runtime leaves it out and says so; `make package` builds a whole one.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SUFFIXES = {".html", ".css", ".js", ".mjs", ".json", ".jsonl", ".py", ".svg", ".png", ".txt", ".ts"}


class StaticFiles(BuildHookInterface):
    """Adds files to the wheel; does nothing for an installation in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        for path in sorted((root / "web").rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and "node_modules" not in path.parts:
                build_data["force_include"][str(path)] = f"detok_py/bridge/static/web/{path.relative_to(root / 'web').as_posix()}"
        runtime = root / ".build" / "runtime"
        if not (runtime / "manifest.json").exists():
            self.app.display_warning("The browser's runtime is not built: this wheel has no page that works. `make package` builds it.")
            return
        for path in sorted(runtime.iterdir()):
            # A client that takes no brotli gets the plain file: a third form would only make the wheel larger.
            if path.suffix != ".gz":
                build_data["force_include"][str(path)] = f"detok_py/bridge/static/runtime/{path.name}"
