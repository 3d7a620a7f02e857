"""Add special tokens around a text, such as [CLS] … [SEP] or a beginning-of-text id.

In: the `post_processor` of a tokenizer.json. Out: a function from the ids of a text to the ids with
the special ids around them. Templates for pairs are not read: detok encodes one text at a time.
"""

from typing import Any, Callable

from ..errors import TokenizerFormatError

PostProcessor = Callable[[list[int]], list[int]]

_SUPPORTED = "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence"


def compile_post_processor(config: dict[str, Any] | None) -> PostProcessor:
    """Return the function that adds the special ids before and after a text's ids.

    Raises TokenizerFormatError if the post-processor isn't supported or is damaged.

    >>> compile_post_processor(
    ...     {"type": "BertProcessing", "cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}
    ... )([7, 8])
    [101, 7, 8, 102]
    >>> compile_post_processor(None)([7])
    [7]
    """
    before, after = _ids_around(config, 0)
    return lambda ids: before + ids + after


def _ids_around(config: dict[str, Any] | None, depth: int) -> tuple[list[int], list[int]]:
    if config is None:
        return [], []
    if not isinstance(config, dict) or depth > 16:
        raise TokenizerFormatError(
            "the post-processor is not an object with a type, or is nested too deeply"
        )
    kind = config.get("type")
    if kind == "ByteLevel":
        return [], []
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [_token_id(config, "cls")], [_token_id(config, "sep")]
    if kind == "Sequence":
        before: list[int] = []
        after: list[int] = []
        processors = config.get("processors")
        if not isinstance(processors, list):
            raise TokenizerFormatError("a Sequence post-processor has no list of processors")
        for one in processors:
            first, last = _ids_around(one, depth + 1)
            before = first + before
            after = after + last
        return before, after
    if kind == "TemplateProcessing":
        return _template(config)
    raise TokenizerFormatError(
        f"the post-processor {kind!r:.60} is not supported; supported: {_SUPPORTED}"
    )


def _token_id(config: dict[str, Any], name: str) -> int:
    pair = config.get(name)
    if isinstance(pair, (list, tuple)) and len(pair) == 2 and type(pair[1]) is int:
        return pair[1]
    raise TokenizerFormatError(
        f"the post-processor's {name!r} is {pair!r:.60}; expected [token, id]"
    )


def _template(config: dict[str, Any]) -> tuple[list[int], list[int]]:
    single = config.get("single")
    tokens = config.get("special_tokens")
    if not isinstance(single, list) or not isinstance(tokens, dict):
        raise TokenizerFormatError(
            "the template has no 'single' list or no 'special_tokens'; expected both"
        )
    around: list[list[int]] = [[]]  # the ids before the text, then those after it
    for item in single:
        if isinstance(item, dict) and "Sequence" in item:
            around.append([])
            if len(around) > 2:
                raise TokenizerFormatError(
                    "the template contains the text twice; supported: one sequence A"
                )
            continue
        try:
            ids = tokens[item["SpecialToken"]["id"]]["ids"]
        except (KeyError, TypeError):
            raise TokenizerFormatError(
                f"the template uses a special token that it doesn't define: {item!r:.80}"
            ) from None
        if not isinstance(ids, list) or not all(type(one) is int for one in ids):
            raise TokenizerFormatError(
                f"the template's ids for {item!r:.60} are not a list of integers"
            )
        around[-1] += ids
    if len(around) < 2:
        raise TokenizerFormatError(
            "the template does not contain the text; expected one sequence A"
        )
    return around[0], around[1]
