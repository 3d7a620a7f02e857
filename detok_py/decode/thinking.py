"""A whole answer without its reasoning.

In: text. Out: its content. For text that streams, ChatStream has the channels.
"""

from typing import TYPE_CHECKING

from .channels import EVERY, Channels

if TYPE_CHECKING:
    from .channels import Start


def strip_thinking(
    text: str,
    open: str = "<think>",
    close: str = "</think>",
    *,
    start: "Start" = "content",
    every: bool = False,
) -> str:
    """Return a whole text without its reasoning: the content that a ChatStream with these tags
    would give.

    The first `open` begins the reasoning, the first `close` after that ends it, all later tags are
    text; with `every` each block is reasoning. Reasoning that is never closed goes to the end. With
    `start="reasoning"` the text begins within it, for templates that open the block in the prompt.
    White space and tool calls stay.

    >>> (
    ...     strip_thinking("<think>2+2 is 4</think>Four."),
    ...     strip_thinking("a <b> c"),
    ...     strip_thinking("So <think>far"),
    ... )
    ('Four.', 'a <b> c', 'So ')
    >>> strip_thinking("2+2 is 4</think>Four.", start="reasoning")
    'Four.'
    """
    tags = (open, close, EVERY) if every else (open, close)
    channels = Channels(reasoning=tags, tools=None, start=start, trim_artifacts=False)
    deltas = channels.feed(text) + channels.flush()
    return "".join([delta.text for delta in deltas if delta.channel == "content"])
