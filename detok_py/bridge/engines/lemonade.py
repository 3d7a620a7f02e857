"""Lemonade (AMD): a server with OpenAI's routes that runs a llama-server as its child process.

In: `/v1/health`, which has the address of the llama-server. Out: exact bytes from that
llama-server, which the bridge talks to directly.
"""

from . import EngineError
from .address import Address, AddressError, check_address
from .http import EngineClient
from .llama_server import LlamaServer


class Lemonade(LlamaServer):
    """Finds Lemonade's llama-server and talks to that."""

    client: EngineClient
    version_at: tuple[str, str] = ("/v1/health", "version")

    def __init__(self, address: Address, *, allow_remote: bool = False) -> None:
        super().__init__(address, name="Lemonade (llama.cpp)")
        self.front: EngineClient = EngineClient(
            address, name="Lemonade", hint="start it: lemonade-server serve"
        )
        self._allow_remote = allow_remote
        self._url: str | None = None
        self._earlier: list[EngineClient] = []

    async def open(self) -> None:
        """Ask Lemonade for the address of its llama-server, whose port changes with the model."""
        health = await self.front.get("/v1/health")
        url = _backend_of(health)
        if url is None:
            raise EngineError(
                "Lemonade has no llama.cpp model loaded; load one in it, then ask again."
            )
        if url != self._url:
            try:
                # The address comes from the network, so it is checked too.
                address = check_address(url, allow_remote=self._allow_remote, named=False)
            except AddressError as error:
                raise EngineError(
                    f"Lemonade names a llama-server that is not allowed: {error}", retry=False
                ) from None
            # Answers may still come from the earlier one, so it is closed at the end.
            self._earlier.append(self.client)
            self.client = EngineClient(
                address, name="llama-server", hint="load a model in Lemonade"
            )
            self._url = url
        await super().open()

    async def close(self) -> None:
        """Close the connections."""
        for client in (self.front, *self._earlier):
            await client.close()
        await super().close()


def _backend_of(health: object) -> str | None:
    """Return the llama-server's address, without its OpenAI prefix.

    It is at the top of the answer or in the entry of a loaded model, depending on the version.

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
