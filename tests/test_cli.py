"""The `detok` command: what it says and how it ends. What each subcommand does is tested with the subcommand."""

import argparse
import subprocess
import sys
import types

import pytest

from detok_py import __version__, cli
from detok_py.errors import DetokError


def a_command(monkeypatch, run, add_arguments=lambda parser: None):
    """Put a command named `try` into the table, made of the two functions that a command's module has."""
    module = types.ModuleType("detok_command_for_a_test")
    module.add_arguments, module.run = add_arguments, run
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, "try", cli.Command(module.__name__, "try something"))


def test_without_a_command_it_shows_the_help_and_has_done_nothing(capsys):
    assert cli.main([]) == 2
    shown = capsys.readouterr().out
    assert all(name in shown for name in cli.COMMANDS)


def test_it_says_its_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"detok {__version__}\n"


def test_the_command_is_also_a_module():
    done = subprocess.run([sys.executable, "-m", "detok_py", "--version"], capture_output=True, text=True)
    assert done.stdout == f"detok {__version__}\n"


def test_help_imports_no_command():
    question = "import sys; from detok_py.cli import main; main([]); print(*[name for name in sys.modules if name.startswith('detok_py.')])"
    done = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {command.module for command in cli.COMMANDS.values()} & loaded


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: detok {name}" in capsys.readouterr().out


def test_the_exit_code_is_the_commands(monkeypatch):
    a_command(monkeypatch, lambda args: 1)
    assert cli.main(["try"]) == 1


def test_a_command_knows_by_which_name_it_was_called(monkeypatch):
    heard = []

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        heard.append(parser.get_default("command"))

    def run(args: argparse.Namespace) -> int:
        heard.append(args.command)
        return 0

    a_command(monkeypatch, run, add_arguments)
    cli.main(["try"])
    assert heard == ["try", "try"]


def failing(error):
    def run(args):
        raise error

    return run


def test_a_known_failure_is_one_line_on_stderr(monkeypatch, capsys):
    a_command(monkeypatch, failing(DetokError("The file x.gguf\nends too early.")))
    assert cli.main(["try"]) == 2
    assert capsys.readouterr().err == "detok: The file x.gguf ends too early.\n"


def test_a_missing_file_is_one_line_with_its_name(monkeypatch, capsys, tmp_path):
    a_command(monkeypatch, lambda args: len((tmp_path / "nowhere").read_text()))
    assert cli.main(["try"]) == 2
    assert capsys.readouterr().err == f"detok: {tmp_path / 'nowhere'}: No such file or directory.\n"


def test_a_missing_package_is_one_line_with_the_extra_that_brings_it(monkeypatch, capsys):
    a_command(monkeypatch, failing(ModuleNotFoundError("No module named 'starlette'", name="starlette.routing")))
    monkeypatch.setitem(cli.COMMANDS, "try", cli.COMMANDS["try"]._replace(extra="serve"))
    assert cli.main(["try"]) == 2
    assert (
        capsys.readouterr().err
        == "detok: detok try needs the package 'starlette', which is not installed: pip install 'detok_py[serve]'.\n"
    )


def test_a_command_that_the_browsers_wheel_leaves_out_says_so(monkeypatch, capsys):
    monkeypatch.setitem(cli.COMMANDS, "try", cli.Command("detok_py.nowhere.command", "try"))
    assert cli.main(["try"]) == 2
    assert "install the full wheel" in capsys.readouterr().err


def test_a_fault_of_our_own_is_not_dressed_up(monkeypatch):
    a_command(monkeypatch, failing(ModuleNotFoundError("No module named 'detok_py.misspelt'", name="detok_py.misspelt")))
    with pytest.raises(ModuleNotFoundError):
        cli.main(["try"])


def test_ctrl_c_ends_it_as_a_shell_expects(monkeypatch):
    a_command(monkeypatch, failing(KeyboardInterrupt()))
    assert cli.main(["try"]) == 130


def test_a_reader_that_has_gone_is_no_failure():
    """`detok … | head -1`: no traceback, whichever side is quicker."""
    done = subprocess.run(["bash", "-c", f"'{sys.executable}' -m detok_py | true"], capture_output=True, text=True)
    assert done.stderr == ""
