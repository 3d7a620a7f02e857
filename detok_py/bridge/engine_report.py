"""Write what a check of an engine has found, as a table for people and as JSON for an issue.

In: an engine's Info and version, its vocabulary, and the Proof. Out: text, or a dict. Neither has
the URL of the engine, nor a text that it wrote.
"""

import re
from typing import Any

from .. import __version__
from ..decode.vocabulary import Vocabulary
from .engine_check import Proof, Resumed, Row
from .engines import Info

COLUMNS = ("asked by", "tokens", "characters", "split", "given", "streamed", "whole")


def as_json(
    info: Info, version: str | None, vocabulary: Vocabulary | None, proof: Proof
) -> dict[str, Any]:
    """Return everything that was found."""
    return {
        "detok": __version__,
        "engine": info.name,
        "version": version,
        "model": model_of(info),
        "device": info.device,
        "gives": proof.gives,
        "vocabulary": None
        if vocabulary is None
        else {"size": len(vocabulary), "sha256": vocabulary.sha256},
        "result": proof.result,
        "broken_characters": proof.broken,
        "split_characters": proof.split,
        "texts": [row._asdict() for row in proof.rows],
        "ids_recovered": proof.ids,
        "resumed": proof.resumed._asdict(),
        "repeatable": proof.repeatable,
        "first_token_ms": proof.first_token_ms,
        "token_ms": proof.token_ms,
        "slowest_token_ms": proof.slowest_token_ms,
        "notes": proof.notes,
    }


def as_table(info: Info, version: str | None, vocabulary: Vocabulary | None, proof: Proof) -> str:
    """Return the table, with the result in its last line."""
    name = info.name + (f" {version}" if version else "")
    head = [name, *([str(model_of(info))] if info.model else [])]
    gives = " for a prompt, ".join([proof.gives["prompt"], proof.gives["messages"]])
    lines = [
        " · ".join([*head, info.device or "device not reported"]),
        f"gives {gives} for messages · " + _words_of(vocabulary, proof),
        "",
        *_columns(proof.rows),
        "",
        f"resumed   {_resumed(proof.resumed)}",
    ]
    if proof.ids is not None:
        equal = {True: "equal", False: "broken: some differ", None: "not compared"}
        known = (proof.ids["tokens"] or 0) - proof.ids["unknown"]
        lines.append(
            f"ids       {equal[proof.ids['equal']]}: {known} recovered from bytes, {proof.ids['unknown']} unknown"
        )
    if proof.first_token_ms is not None:
        then = (
            f", then {proof.token_ms:g} ms a token (slowest {proof.slowest_token_ms:g} ms)"
            if proof.token_ms is not None
            else ""
        )
        lines.append(f"time      {proof.first_token_ms:g} ms to the first token{then}")
    lines += [f"note      {note}" for note in proof.notes]
    return "\n".join([*lines, f"result    {verdict(proof)}"])


def verdict(proof: Proof) -> str:
    """Return the result in one sentence."""
    if proof.result == "nothing proven":
        return (
            "nothing proven: no answer had a split character of the texts, or U+FFFD may be the "
            "model's own; try another model."
        )
    split = "" if proof.split is None else f", {proof.split} of them split over tokens"
    return f"{proof.result}: {proof.broken} of {proof.compared} characters broken{split}."


def model_of(info: Info) -> str | None:
    """Return the name of the model, without the folders of this machine.

    >>> model_of(Info("vLLM", "ids", None, "/home/me/models/Qwen3-8B/"))
    'Qwen3-8B'
    >>> model_of(Info("vLLM", "ids", None, "Qwen/Qwen3-8B"))
    'Qwen/Qwen3-8B'
    """
    model = info.model
    if model is not None and re.match(r"([A-Za-z]:)?[/\\]|~", model):
        return re.split(r"[/\\]", model.rstrip("/\\"))[-1]
    return model


def _words_of(vocabulary: Vocabulary | None, proof: Proof) -> str:
    if vocabulary is not None:
        return f"vocabulary of {len(vocabulary)} ids"
    if "ids" in proof.gives.values():
        return "no vocabulary, so ids were not read: pass --tokenizer FILE"
    return "no vocabulary"


def _columns(rows: list[Row]) -> list[str]:
    table: list[tuple[str, ...]] = [("text", *COLUMNS)]
    for row in rows:
        asked = row.asked_by + (", other text" if row.as_asked is False else "")
        counts = [row.tokens, row.characters, row.split]
        cells = ["?" if count is None else str(count) for count in counts]
        broken = f" ({row.broken})" if row.broken else ""
        words = [
            word + broken * (word == "broken") for word in (row.given, row.streamed, row.whole)
        ]
        table.append((row.text, asked, *cells, *words))
    widths = [max(len(line[n]) for line in table) for n in range(len(table[0]))]
    return [
        "  ".join(
            cell.rjust(width) if 2 <= n <= 4 else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]


def _resumed(resumed: Resumed) -> str:
    word = {True: "equal", False: "broken", None: "not compared"}[resumed.equal]
    if resumed.after is None:
        return f"{word}: {resumed.why}"
    inside = ", inside a character" if resumed.inside_a_character else ""
    why = f"; {resumed.why}" if resumed.why else ""
    return f"{word}: cut after token {resumed.after} of {resumed.of}{inside}{why}"
