"""What the options of a chat answer make: its channels, its beginning, and its table of steps.

In: the options of a ChatStream and its detokenizer. Out: the parts that read the answer.
"""

from typing import Any

from .channels import Channels, tag_pairs
from .detokenizer import Detokenizer
from .pipeline import Pipeline
from .table import Table, kept
from .word_search import shared

# The default pairs of tags.
REASONING = ("<think>", "</think>")
TOOLS = ("<tool_call>", "</tool_call>")


def channels_of(
    source: Any,
    stop: Any,
    format: Any,
    tags: "tuple[Any, Any]",
    tool_schemas: Any,
    options: dict[str, Any],
) -> Any:
    """Return the channels of an answer: of a format, or of pairs of tags around reasoning and
    calls.
    """
    name = format
    own_tags = tags[0] is not REASONING or tags[1] is not TOOLS
    if format == "auto":
        vocabulary = getattr(source, "vocabulary", None)
        name = None if own_tags else getattr(vocabulary, "chat_format", None)
    elif format is None:
        tags = None, None
    elif own_tags:
        raise ValueError(
            f"reasoning and tools are pairs of tags of one's own; the format {format} has its own: leave them out."
        )
    if name == "json":
        from .json_channels import JsonChannels

        options["start"] = "content" if options["start"] == "auto" else options["start"]
        return JsonChannels(stop, **options)
    if name is not None:
        from .format_channels import format_channels, known_format

        name = known_format(name) if format == "auto" else name
    if name is not None:
        return format_channels(name, source, stop, tool_schemas, options)
    options["reasoning"], options["tools"] = tags
    if options["start"] == "auto":
        options["start"] = opened_section(source, None, options)
    return Channels(stop, **options)


def opened_section(source: Any, name: Any, options: dict[str, Any]) -> str:
    """Return the section that the end of the prompt has opened; in a format, or with the pairs of
    tags of `options`.
    """
    if name == "json" or (name is None and not getattr(source, "_prompt", None)):
        return "content"
    from .format_channels import start_of

    pairs = () if name is not None else tag_pairs(options["reasoning"], "reasoning")
    return start_of(source, name, pairs)


def table_of(parts: Pipeline) -> Table:
    """Return the table that streams with the same options share."""
    rules = parts.rules
    options = tuple(parts.channels.options.items())
    key = (options, rules.sequences, rules.eos, rules.least, rules.most)
    if parts.source.__class__ is Detokenizer:
        of_ids: Table = kept(
            parts.source.vocabulary, "tables", (parts.source.settings,) + key, Table
        )
        return of_ids
    table: Table = shared(("table",) + key, lambda *_: Table())
    return table
