"""Tokens that end a text, known by their names.

In: the names of a file's special tokens with their ids. Out: the ids that end a text. The names
are those of llama.cpp's `src/llama-vocab.cpp` (`load`, "auto-detect special tokens by text").
"""

from collections.abc import Iterable, Mapping

ENDS = frozenset(
    [
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<|tool_response>",
        "[e~[",
        "<｜end▁of▁sentence｜>",
    ]
)
# llama.cpp counts every "</s>". In vocabularies made from web pages it may be the HTML tag that
# ends struck-out text, so it counts only if it is a special token.
END_OR_TAG = "</s>"


def inner_ends(ends: Iterable[str]) -> set[str]:
    """Return those of a vocabulary's end tokens that end only a message, or nothing, because others
    of them end the answer.

    >>> inner_ends(["<|end|>", "<|return|>", "<|call|>"])
    {'<|end|>'}
    """
    has = set(ends)
    out = set()
    if {"<|return|>", "<|call|>"} <= has or (
        "<|flush|>" in has and has & {"<|call|>", "<|calls|>"}
    ):
        out.add("<|end|>")
    if "<|tool_response>" in has:
        out.add(END_OR_TAG)
    return out & has


def ends_by_name(special: Mapping[str, int]) -> set[int]:
    """Return the ids of the special tokens that end a text.

    >>> ends_by_name({"<s>": 1, "</s>": 2})
    {2}
    """
    ends = (ENDS | {END_OR_TAG}) & set(special)
    return {special[name] for name in ends - inner_ends(ends)}
