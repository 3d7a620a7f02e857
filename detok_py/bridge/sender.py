"""Sends what a session has for its client.

In: a `ServerSession` that has frames to send. Out: frames, written in the same turn of the event
loop where the socket takes them, else as fast as the peer reads.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from ..protocol.server import ServerSession
from .gate import Send


class Turns:
    """Numbers the turns of the event loop in which something is written. One callback ends a turn
    for all sessions: a callback for each token would take a tenth of the token's time.
    """

    def __init__(self) -> None:
        self.number: int = 0
        self._ending = False

    def write(self) -> int:
        """Return the number of this turn, which ends after the callbacks that wait already."""
        if not self._ending:
            self._ending = True
            asyncio.get_running_loop().call_soon(self._end)
        return self.number

    def _end(self) -> None:
        self._ending = False
        self.number += 1


class Sender:
    """Sends the frames of a session: the first data of a turn of the event loop at once, and what
    else comes in that turn together, when the turn ends. Frames that cannot be written at once are
    sent as fast as the peer reads.
    """

    def __init__(
        self, session: ServerSession, send: Send, extension: dict[str, Any], turns: Turns
    ) -> None:
        self._session = session
        self._send = send
        self._can_write: Callable[[], bool] = extension.get("can", lambda: False)
        self._write: Callable[[list[str | bytes]], None] | None = extension.get("write")
        self._woken = asyncio.Event()
        self._sending = False
        self._turns = turns
        self._wrote_in = -1  # the last turn in which this sender has written
        self._has_more = False  # since then
        session.wake = self.wake

    def wake(self) -> None:
        """Send what there is."""
        if self._wrote_in == self._turns.number:
            if not self._has_more:
                self._has_more = True
                asyncio.get_running_loop().call_soon(self._send_more)
        elif self._write is None or self._sending or self._session.closing or not self._can_write():
            self._woken.set()
        elif frames := self._session.frames():
            self._wrote_in = self._turns.write()
            self._write(frames)

    def _send_more(self) -> None:
        self._has_more = False
        self.wake()

    async def run(self) -> None:
        """Send what could not be sent at once, and close the socket."""
        session = self._session
        while True:
            self._woken.clear()
            # uvicorn's send waits while the socket's buffer is full, so at most one window of
            # credit is queued for a slow reader.
            self._sending = True
            for frame in session.frames():
                await self._send(
                    {"type": "websocket.send", "text": frame}
                    if isinstance(frame, str)
                    else {"type": "websocket.send", "bytes": frame}
                )
            self._sending = False
            if session.closing:
                code, reason = session.closing
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
                return
            await self._woken.wait()
