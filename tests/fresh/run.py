"""Run both commands of the README as on a new machine.

`python tests/fresh/run.py [--test COMMAND] [STATE …]` copies this machine's root into an overlay,
changes it there (see STATES), clones the project into a path with spaces and non-ASCII letters, and
runs `make demo` and `make test` in it. All that is written, the packages that are removed included,
stays in the overlay, which is deleted at the end; nothing of the machine itself changes. This needs
Linux, root, and a kernel that lets root mount an overlay in a mount namespace of its own; elsewhere
it says so and exits with 2.

Exit code 0: every state went as it should. The last lines say how each one went.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = "chromium chromium-common chromium-headless-shell firefox-esr"
FONTS = "fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji"
PURGE = f"apt-get purge -y -q {BROWSERS} {FONTS} >/dev/null 2>&1 || true"
EMPTY = "rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/cache/apt/*.bin"
NO_NODE = "rm -f $(which -a node npm npx corepack 2>/dev/null)"
LISTS = "apt-get update -q >/dev/null"
OLDER = "apt-cache madison {0} | awk '{{print $3}}' | tail -1"


class State(NamedTuple):
    """How a machine is prepared, and how the commands are run on it."""

    prepare: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    umask: int = 0o022
    # A user who is not root.
    user: str = ""
    read_only_home: bool = False
    # Run the test command once more without a network.
    offline: bool = False
    test: str = "make check"


STATES = {
    "untouched": State((PURGE, EMPTY), test="make test"),
    "old-browsers": State(
        (
            PURGE,
            LISTS,
            *(
                f"apt-get install -y -q --no-install-recommends --allow-downgrades {names} >/dev/null"
                for names in (
                    " ".join(
                        f"{name}=$({OLDER.format(name)})"
                        for name in ("chromium", "chromium-common", "firefox-esr")
                    ),
                )
            ),
            EMPTY,
        ),
        test=".venv/bin/python tools/browsers.py --install",
    ),
    "no-node": State((NO_NODE,)),
    "node-18": State((NO_NODE, LISTS, "apt-get install -y -q nodejs >/dev/null", EMPTY)),
    "no-venv": State(("rm -rf $(python3 -c 'import ensurepip, venv; print(ensurepip.__path__[0], venv.__path__[0])')",)),
    "no-compiler": State(("rm -f $(which -a cc gcc g++ clang cargo rustc 2>/dev/null)",)),
    "no-root": State((PURGE, EMPTY), user="visitor", test="make check && { .venv/bin/python tools/browsers.py --install; test $? = 1; }"),
    "offline": State(offline=True),
    "read-only-home": State(read_only_home=True),
    "umask-077": State(umask=0o077),
    "c-locale": State(environment=(("LANG", "C"), ("LC_ALL", "C"))),
}  # fmt: skip


def shell(command: str, **options: object) -> None:
    subprocess.run(["sh", "-c", command], check=True, **options)  # type: ignore[call-overload]


def mount_machine(base: Path) -> Path:
    """Mount a copy of this machine's root; return the folder it is in."""
    root = base / "root"
    for folder in ("upper", "work", "root"):
        (base / folder).mkdir()
    layers = f"lowerdir=/,upperdir={base}/upper,workdir={base}/work"
    shell(f"mount -t overlay overlay -o {layers} {root}")
    for folder in ("proc", "sys", "dev"):
        shell(f"mount --rbind /{folder} {root}/{folder}")
    shell(f"mount -t tmpfs tmpfs {root}/dev/shm")
    return root


def run_state(name: str, state: State, base: Path) -> list[str]:
    """Run both commands in a state; return the lines that say how it went.

    Runs in a mount namespace of its own, and raises SystemExit with the reason if one fails.
    """
    data = Path(os.environ.get("DETOK_DATA", ROOT.parent / "shared" / "data")).resolve()
    root = mount_machine(base)
    home, clone = Path("/srv/fresh home"), Path("/srv/Détok für alle/detok")
    shell(
        f"git clone -q '{ROOT}' '{root}{clone}' && mkdir '{root}{home}' && chmod 755 '{root}{home}'"
    )
    os.chroot(root)
    os.chdir(clone)
    kept = {
        k: v for k, v in os.environ.items() if k != "TERM" and not k.startswith(("XDG_", "UV_"))
    }
    environment = {**kept, "HOME": str(home), **dict(state.environment)}
    if data.is_dir():
        environment["DETOK_DATA"] = str(data)
    for command in state.prepare:
        shell(command, env={**environment, "DEBIAN_FRONTEND": "noninteractive"})
    if state.user:
        shell(
            f"useradd --home '{home}' {state.user} && chown -R {state.user} '{home}' '{clone.parent}'"
        )
        shell("chmod a+x /root; git config --system --add safe.directory '*'")
    if state.read_only_home:
        shell(f"mount -t tmpfs -o ro tmpfs '{home}'")
    options = {"env": environment, "umask": state.umask, "user": state.user or None}
    lines = [f"make demo: {demo(options)}"]
    lines += [f"{state.test}: {timed(state.test, options)}"]
    if state.offline:
        without = f"unshare --net sh -c 'ip link set lo up && {state.test}'"
        lines += [f"{state.test}, without a network: {timed(without, options)}"]
    return [f"{name}: {line}" for line in lines]


def timed(command: str, options: dict) -> str:
    """Run a command, pass on its output, and return how long it took."""
    began = time.monotonic()
    code = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, **options).returncode
    took = time.monotonic() - began
    if code:
        raise SystemExit(f"{command}: exit code {code} after {took:.0f} s")
    return f"{took:.0f} s"


def demo(options: dict) -> str:
    """Start `make demo`, ask for the page, end it with Ctrl-C; return how long it took to serve."""
    began = time.monotonic()
    environment = {**options["env"], "PORT": "0"}
    process = subprocess.Popen(
        ["make", "demo"],
        **{**options, "env": environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            said += line
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                with urllib.request.urlopen(found[0] + "/", timeout=60) as page:
                    assert b"data-pane" in page.read()
                took = time.monotonic() - began
                os.killpg(process.pid, signal.SIGINT)
                process.communicate(timeout=60)
                return f"the page was served after {took:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    raise SystemExit(f"make demo: no page came:\n{said}")


def known(name: str) -> str:
    """Return the name of a state. In Python 3.11 `choices` does not allow an empty list."""
    if name not in (*STATES, "all"):
        raise argparse.ArgumentTypeError(
            f"there is no state {name!r}, but {', '.join(STATES)}, all"
        )
    return name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--test", help="run this instead of the state's own test command")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    help = f"{', '.join(STATES)} or all (untouched)"
    parser.add_argument(
        "states", nargs="*", default=["untouched"], type=known, metavar="state", help=help
    )
    asked = parser.parse_args()
    names = list(STATES) if "all" in asked.states else asked.states
    if asked.inside:
        state = STATES[names[0]]
        state = state._replace(test=asked.test) if asked.test else state
        print("\n".join(run_state(names[0], state, Path(asked.inside))), flush=True)
        return 0
    probe = ["unshare", "--mount", "--fork", "true"]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(probe).returncode:
        print(
            "A machine that nobody has touched is made in a mount namespace, which needs Linux and "
            "root; run this as root, or run make test on a new machine.",
            file=sys.stderr,
        )
        return 2
    ends = []
    for name in names:
        base = Path(tempfile.mkdtemp(prefix="detok-fresh-", dir="/var/tmp"))
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += [sys.executable, __file__, "--inside", str(base), name]
        command += ["--test", asked.test] if asked.test else []
        print(f"\n━━━ {name} ━━━", flush=True)
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace")
            assert process.stdout is not None
            last: list[str] = []
            for line in process.stdout:
                print(line, end="", flush=True)
                last = [*last[-12:], line.rstrip()]
            good = process.wait() == 0
        finally:
            shutil.rmtree(base, ignore_errors=True)
        told = [line for line in last if line.startswith(f"{name}: ")] if good else last[-3:]
        ends += [*told, f"{name}: {'as it should' if good else 'FAILED'}"]
    print("\n━━━ how it went ━━━\n" + "\n".join(ends), flush=True)
    return 1 if any(line.endswith("FAILED") for line in ends) else 0


if __name__ == "__main__":
    sys.exit(main())
