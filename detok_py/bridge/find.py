"""From what the command line says to an engine, and from an engine to its vocabulary.

In: `recite`, `scripted`, a URL, or a kind and a URL (`vllm+http://…`). Out: an Engine that is not open yet.
"""


from detok_py.vocabulary import Vocabulary

from .engines import Engine, EngineError
from .engines.address import check_address
from .engines.llama_server import LlamaServer
from .engines.recite import ReciteEngine
from .engines.scripted import ScriptedEngine

# kind → module and class, imported when it is asked for.
KINDS = ("llama",)


def open_engine(spec: str, *, allow_remote: bool = False, model: str | None = None, vocabulary: Vocabulary | None = None) -> Engine:
    """Return the engine that `--engine` names. Raises AddressError, EngineError."""
    if spec == "recite":
        return ReciteEngine()
    if spec == "scripted":
        return ScriptedEngine(lambda: vocabulary)
    kind, plus, url = spec.partition("+")
    if not plus or "://" in kind:
        kind, url = "llama", spec
    if "://" not in url:
        raise EngineError(f"there is no engine {spec[:60]!r}; give recite, scripted, or a URL like http://127.0.0.1:8080.", retry=False)
    address = check_address(url, allow_remote=allow_remote)
    return LlamaServer(address)


async def find_vocabulary(engine: Engine) -> Vocabulary | None:
    """Return the vocabulary of an engine that is open, as near to the engine as it can be had."""
    return await engine.vocabulary()
