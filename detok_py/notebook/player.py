"""A widget that plays a stream in a notebook as detok's page does: `widget`.

In: tokens that are there, or that come. Out: a widget of anywidget (the extra `notebook`), for
JupyterLab, VS Code and marimo, with `player.js`. Held: the rows that the page has got.

Rows go to the page in `batch`, [position of the first, rows], at most ten times a second. `rows`
has all of them for a page that comes later; it is written when their number has doubled, and at the
end.
"""

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any

from ..errors import DetokError
from .token import Token
from .tokens import TokenList, listed

BATCH_SECONDS = 0.1


def row_of(token: Token, at: float) -> list[Any]:
    """Return what the page gets of a token: id, bytes, states, text, name, and when it came in
    milliseconds.
    """
    return [token.id, token.data.hex(), token.states, token.text, token.name, round(at, 1)]


@functools.cache
def player_class() -> Any:
    """Return the class of the widget. Raises DetokError if anywidget is not installed."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise DetokError(
            "d.widget needs anywidget, which is not installed: pip install 'detok_py[notebook]', or in Pyodide "
            '`await micropip.install("anywidget")`.'
        ) from None

    class Player(anywidget.AnyWidget):  # type: ignore[misc]
        """A stream that is played. `tokens` is its list; `task` reads it while it comes."""

        _esm = source("player.js")
        _css = source("player.css")
        rows = traitlets.List().tag(sync=True)
        batch = traitlets.List([0, []]).tag(sync=True)
        state = traitlets.Unicode("finished").tag(sync=True)  # or "streaming", "error"
        note = traitlets.Unicode("").tag(sync=True)
        speed = traitlets.Float(1.0).tag(sync=True)

        def __init__(self, tokens: TokenList, **traits: Any) -> None:
            super().__init__(**traits)
            self.tokens = tokens
            self.task: asyncio.Task[None] | None = None

        async def finished(self) -> TokenList:
            """Wait until the stream has ended; return its tokens. Raises what the stream raised."""
            if self.task is not None:
                await self.task
            return self.tokens

    return Player


def source(name: str) -> str:
    """Return the text of a file beside this one, which may be in a zip."""
    path = str(Path(__file__).with_name(name))
    loader = globals().get("__loader__")
    data: bytes = loader.get_data(path) if loader else Path(path).read_bytes()
    return data.decode()


def widget(stream: Any, source: Any = None, *, speed: float = 1.0) -> Any:
    """Return a widget that plays a stream, token by token, beside decoders that break it.

    `stream` is a TokenList, token ids or a text with their tokenizer or vocabulary as `source`, or
    chunks of bytes. If it is an async iterable, its tokens are shown as they come, also text of
    several tokens at once (lists); `await widget.finished()` waits for the end. `speed` is that of
    a recording: 1 is as it came, or thirty tokens a second if that is not known.
    """
    make = player_class()
    if not isinstance(stream, AsyncIterable):
        tokens = listed(source, stream)
        rows = [row_of(token, n * 1000 / 30) for n, token in enumerate(tokens)]
        return make(tokens, rows=rows, speed=speed)
    tokens = TokenList(source)
    player = make(tokens, state="streaming", speed=speed)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise DetokError(
            "an async stream is played by a notebook, where an event loop runs; elsewhere give a list"
        ) from None
    player.task = loop.create_task(read(stream, player))
    return player


async def read(stream: AsyncIterable[Any], player: Any) -> None:
    """Add what comes to the tokens of a widget, until the stream ends."""
    began = sent = time.monotonic()
    rows: list[list[Any]] = []
    first = 0  # that the page has not got

    def send(whole: bool) -> None:
        nonlocal first
        # The states of the last tokens may have changed since.
        begin = max(0, first - 8)
        for n in range(begin, len(player.tokens)):
            rows[n] = row_of(player.tokens[n], rows[n][5])  # a new list, or nothing is sent
        player.batch = [begin, rows[begin:]]
        first = len(rows)
        if whole or first >= 2 * len(player.rows):
            player.rows = list(rows)

    state = "finished"
    try:
        async for given in stream:
            for each in given if isinstance(given, (list, tuple)) else [given]:
                token = player.tokens.add(each)
                rows.append(row_of(token, (time.monotonic() - began) * 1000))
            if time.monotonic() - sent >= BATCH_SECONDS or first == 0:
                send(False)
                sent = time.monotonic()
    except Exception as error:
        state, player.note = "error", str(error)
        raise
    finally:
        player.tokens.flush()
        send(True)
        close = getattr(stream, "aclose", None)
        if close is not None and inspect.isasyncgen(stream):
            await close()
        player.state = state
