"""HTTP towards an engine: pinned to one address, no redirects, no proxies, bounded lines, errors in one sentence.

In: requests. Out: JSON, or the lines of a stream as they come. Held: at most one line.
"""

import json
import os
from collections.abc import AsyncGenerator
from typing import Any

import httpx

from detok_py import wire

from . import EngineError
from .address import Address

MAX_LINE = 4 << 20
MAX_ANSWER = 256 << 20
# A long prompt is worked through in silence; a connection that says nothing for longer than this is dead.
SILENCE_SECONDS = 300.0


class Lines:
    """Bytes to lines, cut anywhere: LF, CRLF or CR end a line, as server-sent events have it (WHATWG HTML 9.2.6). Bounded.

    >>> lines = Lines()
    >>> lines.feed(b"data: a\\r"), lines.feed(b"\\ndata: \\xc3"), lines.feed(b"\\xa9\\n"), lines.flush()
    ([b'data: a'], [], [b'data: \\xc3\\xa9'], [])
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._held = bytearray()
        self._after_cr = False
        self._max_line = max_line

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now, without their ends. Raises EngineError for a line longer than `max_line`."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if chunk.endswith(b"\r"):
            self._after_cr = True
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._held += chunk
            self._bound()
            return []
        parts = chunk.split(b"\n")
        parts[0] = bytes(self._held) + parts[0]
        self._held = bytearray(parts.pop())
        self._bound()
        return parts

    def flush(self) -> list[bytes]:
        """Return what was held."""
        out = [bytes(self._held)] if self._held else []
        self._held.clear()
        return out

    def _bound(self) -> None:
        if len(self._held) > self._max_line:
            self._held.clear()
            raise EngineError(
                f"The engine sent a line longer than {self._max_line >> 20} MiB; that is not a stream of tokens.", retry=False
            )


class EngineClient:
    """A client of one engine. `name` is how sentences call it, `hint` how to start it."""

    def __init__(self, address: Address, *, name: str = "engine", hint: str = "start it and ask again", key: str | None = None) -> None:
        self.address = address
        self.name = name
        self.hint = hint
        self.max_answer = MAX_ANSWER
        headers = {"host": address.host, "accept-encoding": "identity", "user-agent": "detok"}
        key = key or os.environ.get("DETOK_ENGINE_API_KEY")
        if key:
            headers["authorization"] = "Bearer " + key
        sni = {"sni_hostname": address.host.partition(":")[0]} if address.base.startswith("https") else {}
        self._extensions = sni
        self._http = httpx.AsyncClient(
            base_url=address.base,
            headers=headers,
            # No redirects: a pinned address must not become another. No proxies and no .netrc of the environment.
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(5.0, read=SILENCE_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=3.0),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def get(self, path: str) -> Any:
        """Return the JSON at `path`."""
        return await self._json("GET", path, None)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """Return the JSON that answers `body`."""
        return await self._json("POST", path, body)

    async def events(self, path: str, body: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Yield the JSON of each `data:` line of a stream as it comes; `[DONE]`, comments and keep-alives are passed over.

        Raises EngineError when the engine refuses, sends an error event, or is lost.
        """
        lines = Lines()
        try:
            async with self._http.stream("POST", path, json=body, extensions=self._extensions) as answer:
                if answer.status_code != 200:
                    raise self._refused(answer.status_code, await self._bounded(answer, 1 << 16))
                async for chunk in answer.aiter_raw():
                    for line in lines.feed(chunk):
                        event = self._event(line)
                        if event is not None:
                            yield event
                for line in lines.flush():
                    event = self._event(line)
                    if event is not None:
                        yield event
        except httpx.HTTPError as error:
            raise self._lost(error) from None

    def _event(self, line: bytes) -> Any:
        if line.startswith(b"data:"):
            payload = line[5:].strip()
        elif line.startswith(b"error:"):
            payload = line[6:].strip()
        elif line.startswith(b"{"):
            payload = line  # newline-delimited JSON, as Ollama sends it
        else:
            return None
        if not payload or payload == b"[DONE]":
            return None
        event = self._parse(payload)
        if isinstance(event, dict) and event.get("error"):
            error = event["error"]
            raise self._refused(error.get("code") if isinstance(error, dict) else None, payload)
        return event

    async def _json(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        try:
            async with self._http.stream(method, path, json=body, extensions=self._extensions) as answer:
                data = await self._bounded(answer, self.max_answer)
                if answer.status_code != 200:
                    raise self._refused(answer.status_code, data[: 1 << 16])
                return self._parse(data)
        except httpx.HTTPError as error:
            raise self._lost(error) from None

    async def _bounded(self, answer: httpx.Response, limit: int) -> bytes:
        data = bytearray()
        async for chunk in answer.aiter_raw():
            data += chunk
            if len(data) > limit:
                raise EngineError(f"The {self.name} at {self.address.shown} sent an answer over {limit >> 10} KiB.", retry=False)
        return bytes(data)

    def _parse(self, data: bytes) -> Any:
        try:
            return json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise EngineError(
                f"The {self.name} at {self.address.shown} sent something that is not JSON; is it the engine you meant?", retry=False
            ) from None

    def _lost(self, error: httpx.HTTPError) -> EngineError:
        at = self.address.shown
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return EngineError(f"No {self.name} answers at {at}; {self.hint}.")
        if isinstance(error, httpx.ReadTimeout):
            return EngineError(f"The {self.name} at {at} said nothing for {SILENCE_SECONDS:g} seconds; see whether it hangs.")
        return EngineError(f"The {self.name} at {at} was lost in mid-answer; what came before is kept. To go on, {self.hint}.")

    def _refused(self, status: Any, data: bytes) -> EngineError:
        """One sentence for an answer that is not 200. The engine's own words are used only where they can't repeat a prompt."""
        text = data.decode("utf-8", "replace")
        at = self.address.shown
        if "exceed_context_size" in text or "context length" in text or "context size" in text or "context window" in text:
            return EngineError(
                "The prompt is longer than the engine's context; shorten it, or start the engine with more.",
                code=wire.BAD_MESSAGE,
                retry=False,
            )
        if status in (301, 302, 303, 307, 308):
            return EngineError(
                f"The {self.name} at {at} redirects elsewhere, and redirects are not followed; give its real address.", retry=False
            )
        if status in (401, 403):
            return EngineError(f"The {self.name} at {at} wants a key; put it into the environment as DETOK_ENGINE_API_KEY.", retry=False)
        if status == 503:
            return EngineError(f"The {self.name} at {at} is not ready (503): it is loading its model, or is busy; try again in a moment.")
        if status == 429:
            return EngineError(f"The {self.name} at {at} is busy (429); try again in a moment.", code=wire.BUSY)
        if status in (404, 405):
            return EngineError(
                f"The server at {at} is no {self.name}: it has no such route ({status}); see `detok engines`.",
                code=wire.NO_SUCH_ENGINE,
                retry=False,
            )
        if status in (400, 413, 422):
            return EngineError(
                f"The {self.name} at {at} refused the request ({status}); check the prompt and the parameters.",
                code=wire.BAD_MESSAGE,
                retry=False,
            )
        return EngineError(f"The {self.name} at {at} failed ({status if isinstance(status, int) else 'error'}); see its log.")
