"""The options of `detok check` and `detok proxy`, and the files that they name.

In: words of the command line, and the bytes of files. Out: the parsed options, the steps of a
script, the true text, and how the proxy cuts. Raises CheckError, with what to write instead.
"""

import argparse
import contextlib
import json
from typing import Any

from ..errors import DetokError
from .rules import RULES
from .truth import letters

BROWSERS = ("chromium", "firefox", "webkit")
STEPS = ("goto", "click", "fill", "type", "press", "wait_for", "wait", "settle")


class CheckError(DetokError, RuntimeError):
    """The check could not run: no browser, no page, or a failed step."""


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < 86_400_000:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number from 0 to 86399999, not {text}")


def _port(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 0 <= int(text) <= 65535:
            return int(text)
    raise argparse.ArgumentTypeError(f"expected 0 to 65535, not {text}")


Rows = tuple[tuple[str, dict[str, Any]], ...]
CUTS: Rows = (
    ("--split", {"metavar": "HOW", "help": "every-byte (default), token, random:SEED, or none"}),
    ("--delay", {"type": _seconds, "metavar": "MS", "help": "milliseconds to wait after each cut that matters (default: 3)"}),
    ("--only", {"metavar": "REGEX", "help": "cut only the streams whose address matches"}),
    ("--websocket", {"choices": ("fragments", "messages"), "help": "cut WebSocket messages into fragments (default) or messages"}),
)  # fmt: skip
PROXY: Rows = (
    ("--upstream", {"metavar": "URL", "help": "the engine; by default, the proxy is a browser's HTTP proxy"}),
    ("--listen", {"metavar": "PORT", "type": _port, "default": 8764, "help": "the port on 127.0.0.1 (default: 8764; 0: any free one)"}),
    *CUTS,
    ("--json", {"action": "store_true", "help": "write one JSON object per line"}),
)  # fmt: skip
PAGE: Rows = (
    ("url", {"nargs": "?", "metavar": "URL", "help": "the page; one that streams by itself needs nothing else"}),
    ("--self", {"action": "store_true", "dest": "itself", "help": "test this installation: a page with a known fault, and its mended copy"}),
)  # fmt: skip
CHECK: dict[str, Rows] = {
    "driving the page": (
        ("--prompt", {"metavar": "TEXT", "help": "text to type into the page's field and send"}),
        ("--text", {"metavar": "FILE", "help": "the true answer (UTF-8); it is also typed if there is no --prompt and no --script"}),
        ("--script", {"metavar": "FILE", "help": f"steps to do instead, YAML or JSON: a list of {', '.join(STEPS)}; {{text}} and {{prompt}} are filled in"}),
        ("--timeout", {"metavar": "S", "type": _seconds, "default": 60.0, "help": "seconds for the page to finish (default: 60)"}),
        ("--quiet", {"metavar": "MS", "type": _seconds, "default": 800.0, "help": "milliseconds without a change that mean it has finished (default: 800)"}),
        ("--browser", {"choices": BROWSERS, "default": "chromium"}),
        ("--headed", {"action": "store_true", "help": "show the browser"}),
    ),
    "cutting its stream (each of these options adds the chaos proxy)": (
        ("--upstream", {"metavar": "URL", "help": "the engine; where the page's server calls it, give --listen too and point the server there"}),
        ("--listen", {"metavar": "PORT", "type": _port, "help": "the proxy's port on 127.0.0.1 (default: any free one)"}),
        *CUTS,
    ),
    "judging": (
        ("--within", {"metavar": "CSS", "help": "only what is inside an element that matches"}),
        ("--exclude", {"metavar": "CSS", "help": "leave out findings inside elements that match; the text is still compared with what is in them"}),
        ("--ignore", {"metavar": "RULE", "action": "append", "default": [], "choices": sorted(RULES), "help": "leave a rule out; may be repeated"}),
        ("--max-late", {"metavar": "MS", "type": _seconds, "help": "fail if text was shown more than so many milliseconds after the proxy had sent it"}),
        ("--markdown", {"action": "store_true", "help": "fail if Markdown syntax was shown before it was rendered"}),
        ("--allow-literal", {"action": "store_true", "help": "a U+FFFD that stays is the model's own"}),
    ),
    "output": tuple(
        (f"--{form.split()[0].lower()}", {"metavar": "FILE", "help": f"write the verdict as {form}; - is stdout"})
        for form in ("JSON", "JUnit XML", "HTML")
    ),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `detok check`, or of `detok proxy` if that is the parser's command."""
    proxy = parser.get_default("command") == "proxy"
    for flag, given in PROXY if proxy else PAGE:
        parser.add_argument(flag, **given)
    for title, rows in () if proxy else CHECK.items():
        group = parser.add_argument_group(title)
        for flag, given in rows:
            group.add_argument(flag, **given)
    if proxy:
        parser.set_defaults(split="every-byte")


def cuts(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return how the proxy is to cut, by the names of `Traffic`; None if no option asks for one."""
    asked = (args.split, args.upstream, args.listen, args.delay, args.only, args.websocket)
    if all(option is None for option in asked):
        return None
    return {
        "split": args.split or "every-byte",
        "delay": (3.0 if args.delay is None else args.delay) / 1000,
        "only": args.only,
        "websocket": args.websocket or "fragments",
    }


def text_of_file(raw: bytes, name: str) -> str:
    """Return the text of a file."""
    try:
        return raw.decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        raise CheckError(f"{name} is not UTF-8 at byte {error.start}; it must be.") from None


def true_text(raw: bytes, name: str) -> str:
    """Return the text of a file that has the true answer."""
    text = text_of_file(raw, name)
    if not letters(text):  # any page would show it
        raise CheckError(f"{name} has no text to compare.")
    return text


def steps_of(source: str, name: str) -> list[dict[str, Any]]:
    """Return the steps of a script, which is YAML or, if its name says so, JSON.

    >>> steps_of('[{"press": "Enter"}]', "ask.json")
    [{'press': 'Enter'}]
    """
    steps = _json(source, name) if name.endswith(".json") else _yaml(source, name)
    if not isinstance(steps, list):
        raise CheckError(
            f"{name} must be a list of steps, such as `- press: Enter`; it is a {type(steps).__name__}."
        )
    for number, step in enumerate(steps, 1):
        if not isinstance(step, dict) or len(step) != 1 or next(iter(step)) not in STEPS:
            raise CheckError(
                f"{name}, step {number}: {step!r} is none of {', '.join(STEPS)}; write one a line, such as `- press: Enter`."
            )
        ((verb, what),) = step.items()
        if what is None and verb != "settle":
            raise CheckError(
                f"{name}, step {number}: {verb} has no value; write one, as in `- press: Enter`."
            )
        timed = type(what) in (int, float) or what is None
        if verb in ("wait", "settle") and not timed:
            raise CheckError(
                f"{name}, step {number}: {verb} takes milliseconds, such as `- {verb}: 500`, not {what!r}."
            )
    return steps


def _json(source: str, name: str) -> Any:
    try:
        return json.loads(source)
    except ValueError as error:
        raise CheckError(f"{name} is not JSON: {error}.") from None


def _yaml(source: str, name: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise CheckError(
            f"{name} is not read as YAML here; write the same steps as JSON, in a file whose name ends in .json."
        ) from None
    try:
        return yaml.safe_load(source)
    except yaml.YAMLError as error:
        raise CheckError(f"{name} is not YAML: {' '.join(str(error).split())}.") from None
