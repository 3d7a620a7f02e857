"""A replacement for Starlette's and FastAPI's `StreamingResponse`, for ids instead of text.

In: a tokenizer, and an iterable or async iterable of ids, lists of ids, or bytes. Out: a response
whose chunks are whole characters of UTF-8, each sent as soon as it is certain.
"""

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import TYPE_CHECKING

from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse as TextResponse

from ..tokenizers.text_stream import Chunk
from ..tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing import Unpack

    from ..tokenizers.tokenizer import Options


class StreamingResponse(TextResponse):
    """A response with the text of `tokenizer.stream(chunks, …)`.

    `status_code`, `headers`, `media_type` (text/plain) and `background` are Starlette's; further
    options are those of `Tokenizer.stream`. Chunks that come synchronously are read in a thread.
    """

    media_type = "text/plain"

    def __init__(
        self,
        tokenizer: Tokenizer,
        chunks: Iterable[Chunk] | AsyncIterable[Chunk],
        status_code: int = 200,
        *,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
        background: BackgroundTask | None = None,
        **options: "Unpack[Options]",
    ) -> None:
        text = tokenizer.stream(chunks, **options)
        # Starlette treats whatever has `__aiter__` as asynchronous: its event loop would block.
        content = text if hasattr(chunks, "__aiter__") else iter(text)
        super().__init__(content, status_code, headers, media_type, background)
