"""What the build backend adds to the full wheel: the page, the client library, the examples and the
browser's runtime, for `detok serve`; the cases, for `detok conformance`.

In a clone the bridge serves them from web/ and .build/; in an installation they are package data in
detok_py/bridge/static/. The sdist carries what is built in .build/, so that a wheel of it is whole
without Node. A wheel that is built where `make` has not built the runtime leaves it out and says
so; `make package` builds a whole one.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StaticFiles(BuildHookInterface):
    """Adds files to the wheel; does nothing for an installation in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        cases = root / "conformance" / "cases.json"
        build_data["force_include"][str(cases)] = "detok_py/commands/conformance.json"
        # The page's own files are in page/, in few.
        self.add(build_data, root / "web", "web", leave_out="demo/*")
        # `make package` puts there what it publishes; a plain build takes what a demo was set up with.
        runtime = root / ".build" / "static"
        if not runtime.exists():
            runtime = root / ".build" / "runtime"
        if not (runtime / "manifest.json").exists():
            self.app.display_warning(
                "The browser's runtime is not built: this wheel has no page that works. `make package` builds it."
            )
            return
        self.add(build_data, runtime, "runtime")
        self.add(build_data, root / ".build" / "page", "page")
        # The other files there are the tests'.
        for name in ("react.js", "ai-sdk.js", "uplot.js", "uplot.css"):
            example = root / ".build" / "examples" / name
            if example.exists():
                build_data["force_include"][str(example)] = (
                    f"detok_py/bridge/static/examples/{name}"
                )

    def add(
        self, build_data: dict[str, Any], folder: Path, name: str, leave_out: str = "*.map"
    ) -> None:
        """Take the files of a folder as detok_py/bridge/static/<name>/, but not those of a pattern."""
        for path in sorted(folder.rglob("*")):
            hidden = any(
                part.startswith((".", "__pycache__")) for part in path.relative_to(folder).parts
            )
            if path.is_file() and not hidden and not path.relative_to(folder).match(leave_out):
                build_data["force_include"][str(path)] = (
                    f"detok_py/bridge/static/{name}/{path.relative_to(folder).as_posix()}"
                )
