"""Draw the reference of the Python as HTML: `python tools/site/python_reference.py FOLDER` (pdoc).

In: the public modules of detok_py, with their docstrings and types. Out: pages with relative links,
and a search. Ends with 1 if a public name has no docstring, or pdoc warns of anything.
"""

import importlib
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

import pdoc
import pdoc.doc
import pdoc.render

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
MODULES = ("detok_py", "detok_py.errors", "detok_py.glyphs", "detok_py.integrations")


def load() -> None:
    """Import what a module gives only when it is asked for: pdoc reads what a module has."""
    # A module that type checkers have, and no interpreter.
    typeshed = types.ModuleType("_typeshed")
    typeshed.ReadableBuffer = bytes  # type: ignore[attr-defined]
    sys.modules["_typeshed"] = typeshed
    for name in MODULES:
        module = importlib.import_module(name)
        for each in getattr(module, "__all__", ()):
            setattr(module, each, getattr(module, each))


def undocumented(doc: pdoc.doc.Namespace[object]) -> Iterator[str]:
    """Yield the public names in it that have no docstring; that of a class may have its
    attributes."""
    texts = doc.docstring + "".join(str(each.__doc__) for each in getattr(doc.obj, "__mro__", ()))
    for member in doc.members.values():
        theirs = member.is_inherited and not member.taken_from[0].startswith("detok_py")
        if member.name.startswith("_") or theirs:
            continue
        told = isinstance(member, pdoc.doc.Variable) and f"`{member.name}`" in texts
        if not (member.docstring.strip() or told):
            yield member.fullname
        if isinstance(member, pdoc.doc.Class):
            yield from undocumented(member)


def main(folder: str) -> int:
    load()
    pdoc.render.configure(
        docformat="markdown",
        show_source=False,
        template_directory=Path(__file__).parent / "pdoc",
        footer_text="detok",
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pdoc.pdoc(*MODULES, output_directory=Path(folder))
    faults = [str(warning.message) for warning in told]
    for name in pdoc.extract.walk_specs(MODULES):
        module = pdoc.doc.Module(importlib.import_module(name))
        faults += [f"{each} has no docstring" for each in undocumented(module)]
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
