"""Hooks of the build backend: what they add to detok_py.

To the metadata: the README with links that work where it is published, and the extras, of which
`serve` asks for detok_py_page of the same version. To the wheel: the cases, for
`detok conformance`.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class Metadata(MetadataHookInterface):
    """Completes what pyproject.toml says, so that the version stands in one place."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        version = version_of(root / "detok_py" / "__init__.py")
        readme = (root / "README.md").read_text(encoding="utf-8")
        text = published(readme, metadata["urls"]["Repository"], version)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["optional-dependencies"] = {
            name: [line.replace("{version}", version) for line in lines]
            for name, lines in self.config["optional-dependencies"].items()
        }


class Cases(BuildHookInterface):
    """Adds the conformance suite to the wheel; does nothing for an installation in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder, commands = Path(self.root) / "conformance", "detok_py/commands"
        if self.target_name == "wheel" and version != "editable":
            for file, name in (("cases", "conformance"), ("formats", "formats")):
                build_data["force_include"][str(folder / f"{file}.json")] = (
                    f"{commands}/{name}.json"
                )


def version_of(init: Path) -> str:
    """Return `__version__` of a package, without importing it."""
    found = re.search(r'^__version__ = "([^"]+)"', init.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f'{init} has no line __version__ = "…".')
    return found[1]


def published(readme: str, repository: str, version: str, folder: str = "") -> str:
    """Return a README of a folder with absolute links to the repository, at the version's tag.

    >>> published("[a](docs/a.md#b) ![c](../c.svg)", "https://h/o/r", "1.2", "x")
    '[a](https://h/o/r/blob/v1.2/x/docs/a.md#b) ![c](https://h/o/r/raw/v1.2/c.svg)'
    >>> published('<img src="docs/a.webp">', "https://h/o/r", "1.2")
    '<img src="https://h/o/r/raw/v1.2/docs/a.webp">'
    """

    def address(path: str, kind: str) -> str:
        path = posixpath.normpath(posixpath.join("/", folder, path))
        return f"{repository}/{kind}/v{version}{path}"

    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}({address(link[2], 'raw' if link[1][0] == '!' else 'blob')})"

    def source(tag: re.Match[str]) -> str:
        return tag[1] + address(tag[2], "raw") + '"'

    readme = re.sub(r'(\bsrc(?:set)?=")(?![a-z]+:)([^"]+)"', source, readme)
    return re.sub(r"(!?\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)", absolute, readme)
