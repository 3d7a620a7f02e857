"""Run a program in a terminal, type a prompt if there is one, and judge what its screen showed.

In: the options of `detok check --pty`, the true text if it is known, and the proxy if there is one.
Out: the verdict, as for a page. The program runs in a pseudo-terminal, until it ends or, if it was
given a prompt, until its screen is quiet.
"""

import argparse
import contextlib
import os
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import DetokError
from .answered import by_proxy
from .drive import Check, complete, exit_code, judging, require_proxy
from .evidence import Options, Seen
from .markup import markers
from .options import CheckError
from .verdict import verdict

if TYPE_CHECKING:
    from .terminal_screen import TerminalWatch
    from .traffic import Traffic

# Rules about what a terminal does not have: they neither fail nor pass.
OF_PAGES = {
    "lone-surrogate",
    "ufffd-canvas",
    "ufffd-value",
    "ufffd-attribute",
    "ufffd-css",
    "split-character",
}
PAGE_OPTIONS = ("script", "within", "exclude")
# Makes the pseudo-terminal its controlling terminal, as a login does, and becomes the program.
START = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
LEAST_MS = 3000.0  # how long a program may take before its first word
ECHO_MS = 100.0  # a change that comes sooner after the prompt is its echo
POLL_SECONDS = 0.02


def run_and_judge(
    args: argparse.Namespace, truth: str | None, traffic: "Traffic | None"
) -> dict[str, Any]:
    """Run the command of the options, and return the verdict on what it showed."""
    command = command_of(args)
    check = Check(args, shlex.join(command), truth, [], traffic)
    require_proxy(check)
    begun = time.monotonic()
    with Program(command, traffic) as program:
        settled = program.use(args)
        now = time.time() * 1000
        lines = program.watch.lines()
        markup = _markup(lines, check.url)
        findings = program.watch.findings(check.url, now)
        code = program.code
    text = "\n".join(lines).rstrip("\n")  # the rest of the screen is empty
    options = judging(check, 1 if args.prompt else 0)
    if traffic and truth is None:
        waited = time.monotonic() - begun
        options = options._replace(missing=by_proxy(traffic, options.answers, waited))
    seen = Seen(findings, check.url, text, (), program.watch.tails, markup)
    result = _judged(seen, options)
    if code and exit_code(result) != 1:
        said = next((line for line in reversed(lines) if line), "it wrote nothing")
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        raise CheckError(f"{command[0]} ended with {how}: {said}")
    return complete(result, check, set(), settled)


def command_of(args: argparse.Namespace) -> list[str]:
    """Return the command that follows `--pty`. Raises CheckError if there is none to run."""
    if not args.url:
        raise CheckError("Which program? Name it after --: detok check --pty -- python chat.py")
    words = [args.url, *args.words]
    for name in PAGE_OPTIONS:
        if getattr(args, name):
            raise CheckError(f"--{name} is about a page; leave it out with --pty.")
    if shutil.which(words[0]) is None:
        raise CheckError(f"There is no program {words[0]!r} to run.")
    return words


def _judged(seen: Seen, options: Options) -> dict[str, Any]:
    result = verdict(seen, options)
    result["passes"] = [one for one in result["passes"] if one["id"] not in OF_PAGES]
    return result


def _markup(lines: list[str], url: str) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(lines, 1):
        marker = next((one for one in markers() if one in line), None)
        if marker:
            first = max(0, line.index(marker) - 40)
            text = line[first : first + 80 + len(marker)]
            found.append({"text": text, "marker": marker, "target": f"line {number}", "url": url})
    return found


class Program:
    """A program in a terminal of its own, and the watch of its screen.

    The `with` block ends it. `code` is its exit code, if it has ended by itself.
    """

    def __init__(self, command: list[str], traffic: "Traffic | None" = None) -> None:
        try:
            import fcntl
            import pty
            import termios
        except ModuleNotFoundError:
            raise CheckError("--pty needs a system with pseudo-terminals, such as Linux.") from None
        try:
            from . import terminal_screen as screen
        except ModuleNotFoundError as error:
            raise DetokError(
                f"detok check --pty needs the package {error.name!r}, which is not installed: pip install 'detok_py[terminal]'."
            ) from None
        self.traffic = traffic
        self.code: int | None = None
        self.ended: bool = False
        self.watch: TerminalWatch = screen.TerminalWatch(self.type)
        self._master, slave = pty.openpty()
        fcntl.ioctl(
            slave, termios.TIOCSWINSZ, struct.pack("HHHH", screen.ROWS, screen.COLUMNS, 0, 0)
        )
        variables = {**os.environ, "TERM": "xterm-256color"}
        if traffic is not None and (server := getattr(traffic, "server", None)):
            variables |= {"http_proxy": server, "HTTP_PROXY": server}
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", START, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=variables,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._master)
        for end in (signal.SIGHUP, signal.SIGKILL):
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, end)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(2)

    def use(self, args: argparse.Namespace) -> bool:
        """Type the prompt, and wait until the program has answered. Return False at the timeout."""
        begun = time.monotonic()
        deadline = begun + args.timeout

        def quiet(least_ms: float, since: float) -> Callable[[], bool]:
            def is_quiet() -> bool:
                changed, now = self.watch.changed, time.time() * 1000
                if changed is None or now - changed < least_ms or self._streaming():
                    return False
                return changed > since or now - since > LEAST_MS

            return is_quiet

        if args.prompt is None:
            return self._read(deadline, lambda: False)
        self._read(min(deadline, begun + 15), quiet(min(args.quiet, 300), 0.0))
        self.type(args.prompt)
        echoed = time.time() * 1000 + ECHO_MS
        self.type("\r")
        return self._read(deadline, quiet(args.quiet, echoed))

    def type(self, text: str) -> None:
        """Type a text at the keyboard."""
        with contextlib.suppress(OSError):  # the program has just ended
            os.write(self._master, text.encode())

    def _streaming(self) -> bool:
        return any(not answer.finished for answer in getattr(self.traffic, "answers", ()))

    def _read(self, deadline: float, stop: Callable[[], bool]) -> bool:
        """Read what the program writes, until it ends or `stop`. Return False at the deadline."""
        while not self.ended:
            if stop():
                return True
            if time.monotonic() >= deadline:
                return False
            if select.select([self._master], [], [], POLL_SECONDS)[0]:
                data = self._written()
                self.ended = not data
                self.watch.feed(data, time.time() * 1000, final=self.ended)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it runs on without a terminal
            self.code = self._process.wait(2)
        return True

    def _written(self) -> bytes:
        try:
            return os.read(self._master, 65536)
        except OSError:  # on Linux, when no program has the terminal any more
            return b""
