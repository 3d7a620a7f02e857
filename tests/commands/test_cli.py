"""The `detok` command: its output and exit codes. The subcommands have tests of their own."""

import argparse
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from programs import ran, refusal_of

from detok_py import __version__, cli
from detok_py.errors import DetokError

ROOT = Path(cli.__file__).parents[1]


def python(*words, **options):
    return ran(sys.executable, *words, **options)


def help_of(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def add_command(monkeypatch, run, add_arguments=lambda parser: None):
    """Add a subcommand `try` with the two functions of a command's module."""
    module = types.ModuleType("detok_command_for_a_test")
    module.add_arguments, module.run = add_arguments, run
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, "try", cli.Command(module.__name__, "try something"))


def test_without_a_command_it_prints_the_help_and_exits_with_2(capsys):
    assert cli.main([]) == 2
    shown = capsys.readouterr().out
    assert all(name in shown for name in cli.COMMANDS)


def test_version_prints_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"detok {__version__}\n"


def test_help_imports_no_subcommand():
    question = "import sys; from detok_py.cli import main; main([]); print(*[name for name in sys.modules if name.startswith('detok_py.')])"
    done = python("-c", question, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {command.module for command in cli.COMMANDS.values()} & loaded


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_and_json(name, capsys):
    said = help_of(name, capsys)
    assert f"usage: detok {name}" in said
    assert "--json" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_needs_no_package_of_an_extra(name):
    """-S leaves site-packages out."""
    done = python("-S", "-m", "detok_py", name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"usage: detok {name}" in done.stdout


def test_the_exit_code_is_that_of_the_subcommand(monkeypatch):
    add_command(monkeypatch, lambda args: 1)
    assert cli.main(["try"]) == 1


def test_a_module_of_several_commands_gets_the_command_name(monkeypatch):
    heard = []

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        heard.append(parser.get_default("command"))

    def run(args: argparse.Namespace) -> int:
        heard.append(args.command)
        return 0

    add_command(monkeypatch, run, add_arguments)
    cli.main(["try"])
    assert heard == ["try", "try"]


def failing(error):
    def run(args):
        raise error

    return run


def test_an_expected_error_is_one_line_on_stderr(monkeypatch, capsys):
    add_command(monkeypatch, failing(DetokError("The file x.gguf\nends too early.")))
    assert refusal_of(capsys, "try") == "detok: The file x.gguf ends too early.\n"


def test_a_missing_package_is_named_with_its_extra(monkeypatch, capsys):
    add_command(
        monkeypatch,
        failing(ModuleNotFoundError("No module named 'starlette'", name="starlette.routing")),
    )
    monkeypatch.setitem(cli.COMMANDS, "try", cli.COMMANDS["try"]._replace(extra="serve"))
    package = "the package 'starlette', which is not installed: pip install 'detok_py[serve]'"
    assert refusal_of(capsys, "try") == f"detok: detok try needs {package}.\n"


def test_a_command_missing_from_the_browser_wheel_is_named(monkeypatch, capsys):
    monkeypatch.setitem(cli.COMMANDS, "try", cli.Command("detok_py.nowhere.command", "try"))
    assert "install the full wheel" in refusal_of(capsys, "try")


def test_a_bug_raises_its_traceback(monkeypatch):
    add_command(
        monkeypatch,
        failing(
            ModuleNotFoundError("No module named 'detok_py.misspelt'", name="detok_py.misspelt")
        ),
    )
    with pytest.raises(ModuleNotFoundError):
        cli.main(["try"])


def test_ctrl_c_exits_with_130(monkeypatch):
    add_command(monkeypatch, failing(KeyboardInterrupt()))
    assert cli.main(["try"]) == 130


def test_a_closed_pipe_is_not_an_error():
    """`detok … | head -1` prints no traceback, whichever process ends first."""
    assert ran("bash", "-c", f"'{sys.executable}' -m detok_py | true").stderr == ""


@pytest.mark.native
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_a_sentence():
    with open("/dev/full", "wb") as full:
        streams = {"capture_output": False, "stdout": full, "stderr": subprocess.PIPE}
        done = python("-m", "detok_py", "decode", input="text", **streams)
    assert done.returncode == 2
    assert done.stderr.startswith("detok: the output could not be written: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.native
def test_what_goes_into_a_pipe_is_utf8_whatever_the_locale(tmp_path):
    locale = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    words = ("-m", "detok_py", "tokens", tmp_path / "nöthing")
    assert "nöthing" in python(*words, env=locale, encoding="utf-8").stderr


# A model named for them would not be used.
WITHOUT_A_MODEL = ("recite", "scripted", "llama+http://127.0.0.1:9")


@pytest.mark.native
@pytest.mark.parametrize(
    ("options", "says"),
    [
        *((["--model", "x", "--engine", one], "--model") for one in WITHOUT_A_MODEL),
        (["--continue", "-5"], "--continue is -5; expected 0 or more seconds"),
        (["--continue", "nan"], "--continue is nan; expected"),
        (["--drain-seconds", "-3"], "--drain-seconds is -3; expected"),
        (["--context", "5"], "--context is for --engine llama-cpp-python; drop it"),
        (["--engine", "llama-cpp-python", "--context", "-5"], "--context is -5; expected"),
        (["--host", ""], "--host is empty; give an address of this machine"),
        (["--host", "no such"], "listen on no such port 0: "),
        (["--host", "a..b"], "choose an address of this machine with --host, such as 127.0.0.1."),
        (["--host", "192.0.2.1"], "choose an address of this machine with --host"),
        (["--public-name", "99999"], "'99999' is a number; expected a host name, like"),
        (["--public-name", "443:443"], "'443:443' is a number; expected a host name"),
        (["--public-name", "x:99999"], "'x:99999' has port 99999; expected 1 to 65535"),
        (["--engine", "x=recite", "--engine", "x=scripted"], "like --engine other=scripted"),
    ],
)
def test_a_wrong_option_of_serve_is_refused_with_the_way_out(options, says, capsys, monkeypatch):
    from detok_py.bridge import serve

    async def started(args, engines, listening):
        listening.sock.close()

    monkeypatch.setattr(serve, "_serve", started)
    engine = [] if "--engine" in options else ["--engine", "scripted"]
    assert says in refusal_of(capsys, "serve", "--port", "0", *engine, *options)


@pytest.mark.native
def test_engines_names_a_package_that_it_needs():
    """-S leaves site-packages out."""
    done = python("-S", "-m", "detok_py", "engines", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("detok: detok engines needs the package ")
    assert "pip install 'detok_py[serve]'" in done.stderr


def test_engines_says_what_check_writes_as_json(capsys):
    assert "check: one object" in help_of("engines", capsys)


@pytest.mark.native
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["conformance/http/make_model.py"], "the following arguments are required: FOLDER"),
        (["tools/make_conformance.py", "--show", "zzz"], "no case has an id that begins with zzz"),
        (
            ["tools/make_format_cases.py", "--show", "zzz"],
            "begins with zzz; ids begin with formats/apertus,",
        ),
        (["tests/simulation/replay.py", "3", "1"], "there is no seed from 3 to 1"),
        (["tests/simulation/replay.py", "3", "0"], "there is no seed from 3 to 0"),
    ],
)
def test_a_program_of_the_repository_refuses_wrong_use(words, says):
    done = python(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.native
@pytest.mark.parametrize(
    ("program", "quiet"), [("detok", True), ("mine.py", False), ("detok.py", False)]
)
def test_ctrl_c_in_a_cold_start_is_quiet_in_the_command_only(tmp_path, program, quiet):
    script = tmp_path / program
    script.write_text("import detok_py, os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = python(script, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode != 0
    assert ("KeyboardInterrupt" not in done.stderr) == quiet


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_every_command_and_its_options(shell, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--print-completion", shell])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(name in said for name in [*cli.COMMANDS, "--think", "--allow-origin", "--max-late"])
    assert re.search(r'[("]check[)"]', said)  # of `detok engines`


def test_completion_without_its_package_or_for_another_shell_is_a_sentence(capsys, monkeypatch):
    assert "bash, zsh" in refusal_of(capsys, "--print-completion", "cmd")
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install 'detok_py[completion]'" in refusal_of(capsys, "--print-completion", "bash")
