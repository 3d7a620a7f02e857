"""Lemonade (AMD): an OpenAI front before a llama-server. The child itself gives exact bytes, so it is asked directly.

In: `/v1/health`, which names the child's address. Out: what llama-server gives.
"""

from . import EngineError, Info
from .address import Address, AddressError, check_address
from .http import EngineClient
from .llama_server import LlamaServer


class Lemonade(LlamaServer):
    """Finds Lemonade's llama-server and talks to that."""

    def __init__(self, address: Address, *, allow_remote: bool = False) -> None:
        super().__init__(address, name="Lemonade (llama.cpp)")
        self._front = EngineClient(address, name="Lemonade", hint="start it: lemonade-server serve")
        self._allow_remote = allow_remote
        self._found = False

    async def open(self) -> None:
        """Ask Lemonade where its llama-server is, the first time."""
        if not self._found:
            health = await self._front.get("/v1/health")
            url = _backend_of(health)
            if url is None:
                raise EngineError("Lemonade has no llama.cpp model loaded; load one in it, then ask again.")
            try:
                # The address comes from the network, so it is checked like one from the command line.
                address = check_address(url, allow_remote=self._allow_remote)
            except AddressError as error:
                raise EngineError(f"Lemonade names a llama-server that is not taken: {error}", retry=False) from None
            await self.client.close()
            self.client = EngineClient(address, name="llama-server", hint="load a model in Lemonade")
            self._found = True
        await super().open()

    def info(self) -> Info:
        """As llama-server; the device only where it is known, and here it is not."""
        return super().info()

    async def close(self) -> None:
        """Close the connections."""
        await self._front.close()
        await super().close()


def _backend_of(health: object) -> str | None:
    """The child's address: at the top, or with the model that is loaded, with or without its OpenAI prefix.

    >>> _backend_of({"all_models_loaded": [{"backend_url": "http://127.0.0.1:8001/v1"}]})
    'http://127.0.0.1:8001'
    """
    if not isinstance(health, dict):
        return None
    loaded = health.get("all_models_loaded")
    for entry in [health, *(loaded if isinstance(loaded, list) else [])]:
        url = entry.get("backend_url") if isinstance(entry, dict) else None
        if isinstance(url, str) and url:
            return url.rstrip("/").removesuffix("/v1")
    return None
