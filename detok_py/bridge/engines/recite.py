"""`recite`: the engine that comes with detok.

It is llama.cpp in a child process, with a small model that recites the texts it was trained on. It
needs no download and no installation, and takes the same code path as any llama-server. The child
watches its stdin, so it ends with the bridge, even if the bridge is killed.
"""

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from ..assets import folders
from . import Chunk, EngineError, Info, Request
from .address import check_address
from .llama_server import LlamaServer

FOLDER = folders().recite
START_SECONDS = 60.0


def texts() -> list[dict[str, Any]]:
    """Return the texts that the model recites: [{"id", "title", "lang", "dir", "prompt",
    "text"}].
    """
    path = FOLDER / "texts.json"
    out: list[dict[str, Any]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    )
    return out


class ReciteEngine(LlamaServer):
    """llama-server's API in a child process."""

    def __init__(self, model: Path = FOLDER / "recite.gguf") -> None:
        self._path = model
        self._child: asyncio.subprocess.Process | None = None

    async def open(self) -> None:
        """Start the child, unless it is running."""
        if self._child is not None and self._child.returncode is None:
            return
        await self.close()
        key = secrets.token_hex(16)
        self._child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "detok_py.bridge.engines.recite_server",
            "--model",
            str(self._path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # A user could not act on any of its warnings.
            stderr=asyncio.subprocess.DEVNULL,
            env={
                **os.environ,
                "DETOK_ENGINE_KEY": key,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            },
        )
        assert self._child.stdout is not None
        try:
            line = await asyncio.wait_for(self._child.stdout.readline(), START_SECONDS)
            said = json.loads(line)
        except (TimeoutError, ValueError):
            await self.close()
            raise EngineError(
                "The embedded engine did not start; run `python -m detok_py.bridge.engines.recite_server` to see why."
            ) from None
        if "error" in said:
            await self.close()
            sentence = str(said["error"])
            raise EngineError(sentence[0].upper() + sentence[1:], retry=False)
        super().__init__(
            check_address(f"http://127.0.0.1:{said['port']}"),
            name="llama.cpp",
            device=said.get("device"),
            key=key,
        )
        self._defaults = {"temperature": 0.0}
        await super().open()

    def info(self) -> Info:
        """As llama-server, with the device from the child's log."""
        if self._child is None or not hasattr(self, "client"):  # its first start is not over
            return Info("llama.cpp", "bytes", None, self._path.name)
        return super().info()._replace(identity=None)  # it always has the same model

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """As llama-server. If the child was lost, the next request starts another."""
        return self._watched(super().generate(request))

    async def _watched(self, chunks: AsyncGenerator[Chunk, None]) -> AsyncGenerator[Chunk, None]:
        try:
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
        except EngineError:
            # The connection ends before the system reports the end of the child.
            if self._child is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._child.wait(), 0.5)
            raise

    async def close(self) -> None:
        """End the child; after two seconds, kill it."""
        child, self._child = self._child, None
        if child is None:
            return
        if hasattr(self, "client"):
            await super().close()
        if child.stdin is not None:
            child.stdin.close()
        try:
            await asyncio.wait_for(child.wait(), 2.0)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
