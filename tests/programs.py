"""Programs: run to their end, or those of the repository up to the end of `parse_args`."""

import argparse
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def ran(*command, **options):
    """Run a program in the folder of the project, unless the options of `subprocess.run` say
    otherwise; return how it ended, with all that it said.
    """
    given = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 120, **options}
    return subprocess.run(list(map(str, command)), **given)


def refusal_of(capsys, *words):
    """Return what `detok` says, in this process, of words that it refuses with code 2."""
    from detok_py.cli import main

    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


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
