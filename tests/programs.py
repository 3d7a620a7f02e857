"""Programs of the repository, up to the end of `parse_args`."""

import argparse
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def source_of(program):
    """Return the file of a script ("tools/lock.py"), or of a module ("-m benchmarks.page")."""
    if not program.startswith("-m "):
        return ROOT / program
    path = ROOT / program.removeprefix("-m ").replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def parse(monkeypatch, program, words):
    """Run a program up to the end of `parse_args`. Exits with code 2 if it refuses the words."""

    class Parsed(Exception):
        pass

    path = source_of(program)
    source = path.read_text("utf-8")
    # A program that parses nothing would do its work here. A package's parser is in other files.
    assert "parse_args(" in source or path.name == "__main__.py", f"{program} has no parser"
    parse_args = argparse.ArgumentParser.parse_args

    def stop(parser, *given):
        parse_args(parser, *given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr("sys.argv", [program, *words])
    monkeypatch.syspath_prepend(str(path.parent))
    package = ".".join(path.relative_to(ROOT).parts[:-1]) if program.startswith("-m ") else None
    names = {"__name__": "__main__", "__file__": str(path), "__package__": package}
    with pytest.raises(Parsed):
        exec(compile(source, path, "exec"), names)
