"""Calls to a browser that work with each of Playwright's APIs: sync, async and JavaScript.

Code that calls the browser is a generator: it yields functions without arguments, and receives
their results. `make` and `make_async` call the functions; in Node (web/kit/) JavaScript does.
"""

import pkgutil
from collections.abc import Callable, Generator
from functools import cache, partial
from typing import Any

Steps = Generator[Callable[[], Any], Any, Any]


@cache
def script(name: str) -> str:
    """Return a script of this folder: watcher.js runs in every frame, the others query it."""
    return (pkgutil.get_data(__package__, name) or b"").decode("utf-8")


def is_playwrights(error: Exception, *kinds: str) -> bool:
    """Return whether an exception comes from Playwright, through any of its APIs.

    >>> is_playwrights(ValueError("no"))
    False
    """
    kinds = kinds or ("Error", "TimeoutError", "TargetClosedError")
    return type(error).__name__ in kinds or getattr(error, "name", None) in kinds


def quietly(call: Callable[..., Any], *args: Any, **options: Any) -> Steps:
    """Make one call; return None if Playwright refuses it: the frame is navigating or closed."""
    try:
        return (yield partial(call, *args, **options))
    except Exception as error:
        if not is_playwrights(error):
            raise
        return None


def make(steps: Steps) -> Any:
    """Make the calls of `steps`, and return its result.

    >>> def steps():
    ...     return 1 + (yield lambda: 2)
    >>> make(steps())
    3
    """
    calls = make_async(steps)
    try:
        # Results of the synchronous API are not awaitable, so this runs to the end.
        calls.send(None)
    except StopIteration as end:
        return end.value
    calls.close()
    raise TypeError("a call returned an awaitable: `make_async` takes these")


async def make_async(steps: Steps) -> Any:
    """Make the calls of `steps`, await what they return, and return its result."""
    answer: Any = None
    failure: Exception | None = None
    while True:
        try:
            call = steps.throw(failure) if failure else steps.send(answer)
        except StopIteration as end:
            return end.value
        answer, failure = None, None
        try:
            answer = call()
            if hasattr(answer, "__await__"):
                answer = await answer
        except Exception as error:
            failure = error
