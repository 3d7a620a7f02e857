"""Write a model that says what the cases say: `python make_model.py FOLDER [CASES.json]`.

In: the suite's cases.json, by default the one in the folder above. Out: FOLDER, which a server can
load: `config.json`, `model.safetensors` and `tokenizer.json` for vLLM, SGLang, TGI and
transformers, `script.gguf` for llama.cpp, and `cases.json`, what test_over_http.py asks for and
expects. Needs Python, and no package.

The model is a GPT-2 whose weights are zero except for its embeddings. Each token has a code of 64
signs, half of them +1. The embedding of a position is eight times the code of the token that
follows it, and so the greedy answer to a prompt of n letters is the script from position n on. The
cases stand one behind the other in the script, each with the id that ends an answer.
"""

import argparse
import json
import random
import struct
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

VOCABULARY = "byte-level"
OPTIONS = {"stop", "eos", "max_tokens"}
WIDTH, LOUD, FIRST = 64, 8, 8
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # types of tokens in GGUF
U32, F32, I32, BOOL, STRING, ARRAY = 4, 6, 5, 7, 8, 9


class Script(NamedTuple):
    """The script, and for each case the length of its prompt."""

    ids: list[int]
    prompts: dict[str, int]


def end_of(suite: dict[str, Any]) -> int:
    """Return the id that ends an answer."""
    added = suite["vocabularies"][VOCABULARY]["added_tokens"]
    return int(next(token["id"] for token in added if token["special"]))


def claimed(case: dict[str, Any], end: int) -> bool:
    """Return whether a server of OpenAI's API can be asked for a case: ids without a prompt, which
    the model's end ends, if at all.
    """
    if case.get("vocabulary") != VOCABULARY or "prompt" in case or "superseded_by" in case:
        return False
    options, pushed = case.get("options", {}), pushes(case)
    steps = [step["do"] for step in case["steps"] if "refused" not in step]
    wanted = ["push"] * (len(case["steps"]) - 1) + ["flush"]
    ends = options.get("eos", [end]) == [end]
    known = all(0 <= i < 1 << 16 for i in pushed) and end not in pushed[:-1]
    return not options.keys() - OPTIONS and ends and known and steps == wanted


def pushes(case: dict[str, Any]) -> list[int]:
    """Return all ids of a case."""
    return [i for step in case["steps"] if step["do"] == "push" for i in step["in"]]


def script_of(cases: Iterable[dict[str, Any]], end: int) -> Script:
    """Return the script of cases of ids."""
    ids, prompts = [end] * (FIRST - 1), {}
    for case in cases:
        prompts[case["id"]] = len(ids) + 1
        said = pushes(case)
        ids += said if said[-1:] == [end] else [*said, end]
    return Script(ids, prompts)


def codes(count: int) -> "list[array[float]]":
    """Return a code for each token: far enough from each other that the loud one always wins."""
    chance, found = random.Random(1), []
    signs = [1] * (WIDTH // 2) + [0] * (WIDTH // 2)
    while len(found) < count:
        chance.shuffle(signs)
        code = int("".join(map(str, signs)), 2)
        # At least 12 of 64 signs differ: a product is at most 40, and 8·64 - 40 > 8·40 + 64.
        if all((code ^ other).bit_count() >= 12 for other in found):
            found.append(code)
    return [array("f", [1.0 if code >> at & 1 else -1.0 for at in range(WIDTH)]) for code in found]


def weights(script: Script, count: int) -> "dict[str, tuple[list[int], array[float]]]":
    """Return the tensors by their names in transformers: their shapes and values."""
    table = codes(count)
    loud = array("f", [LOUD * x for i in script.ids for x in table[i]])
    found = {
        "wte.weight": ([count, WIDTH], array("f", [x for code in table for x in code])),
        "wpe.weight": ([len(script.ids), WIDTH], loud),
    }
    shapes = {
        "h.0.attn.c_attn": [WIDTH, 3 * WIDTH],
        "h.0.attn.c_proj": [WIDTH, WIDTH],
        "h.0.mlp.c_fc": [WIDTH, 4 * WIDTH],
        "h.0.mlp.c_proj": [4 * WIDTH, WIDTH],
    }
    for name, (inner, outer) in shapes.items():
        found[f"{name}.weight"] = [inner, outer], array("f", bytes(4 * inner * outer))
        found[f"{name}.bias"] = [outer], array("f", bytes(4 * outer))
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        found[f"{name}.weight"] = [WIDTH], array("f", [1.0] * WIDTH)
        found[f"{name}.bias"] = [WIDTH], array("f", bytes(4 * WIDTH))
    return found


def safetensors(tensors: "dict[str, tuple[list[int], array[float]]]") -> bytes:
    """Return a file of tensors: the length of its head, the head, the values."""
    head, data = {}, b""
    for name, (shape, values) in tensors.items():
        begin, data = len(data), data + values.tobytes()
        place = [begin, len(data)]
        head[f"transformer.{name}"] = {"dtype": "F32", "shape": shape, "data_offsets": place}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


GGUF_NAMES = {
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm",
    "h.0.ln_1": "blk.0.attn_norm", "h.0.attn.c_attn": "blk.0.attn_qkv",
    "h.0.attn.c_proj": "blk.0.attn_output", "h.0.ln_2": "blk.0.ffn_norm",
    "h.0.mlp.c_fc": "blk.0.ffn_up", "h.0.mlp.c_proj": "blk.0.ffn_down",
}  # fmt: skip


def gguf(values: dict[str, tuple[Any, ...]], tensors: dict[str, Any]) -> bytes:
    """Return a GGUF file: key-values, then where each tensor is, then the tensors."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    for key, (kind, *value) in values.items():
        out += string(key) + struct.pack("<I", kind)
        if kind == ARRAY:
            inner, elements = value
            out += struct.pack("<IQ", inner, len(elements))
            out += b"".join([bare(inner, element) for element in elements])
        else:
            out += bare(kind, value[0])
    data = b""
    for name, (shape, numbers) in tensors.items():
        place, _, what = name.rpartition(".")
        out += string(f"{GGUF_NAMES[place]}.{what}") + struct.pack("<I", len(shape))
        # The innermost dimension first. Conv1D of transformers has it last; its values are zero.
        sizes = shape if place.startswith("h.0.") else shape[::-1]
        out += struct.pack(f"<{len(shape)}QIQ", *sizes, 0, len(data))
        data += numbers.tobytes() + b"\0" * (-len(numbers) * 4 % 32)
    return out + b"\0" * (-len(out) % 32) + data


def string(text: str) -> bytes:
    """Return a string of GGUF."""
    return struct.pack("<Q", len(text.encode())) + text.encode()


def bare(kind: int, value: Any) -> bytes:
    """Return a value of GGUF without its type."""
    letters = {U32: "I", F32: "f", I32: "i", BOOL: "?"}
    return string(value) if kind == STRING else struct.pack("<" + letters[kind], value)


def gguf_values(tokenizer: dict[str, Any], positions: int, end: int) -> dict[str, tuple[Any, ...]]:
    """Return the key-values of script.gguf."""
    added = tokenizer["added_tokens"]
    pieces = [*tokenizer["model"]["vocab"], *(token["content"] for token in added)]
    types = [NORMAL] * len(tokenizer["model"]["vocab"])
    types += [CONTROL if token["special"] else USER_DEFINED for token in added]
    return {
        "general.architecture": (STRING, "gpt2"),
        "general.name": (STRING, "script"),
        "gpt2.context_length": (U32, positions),
        "gpt2.embedding_length": (U32, WIDTH),
        "gpt2.feed_forward_length": (U32, 4 * WIDTH),
        "gpt2.block_count": (U32, 1),
        "gpt2.attention.head_count": (U32, 2),
        "gpt2.attention.layer_norm_epsilon": (F32, 1e-5),
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "gpt-2"),
        "tokenizer.ggml.tokens": (ARRAY, STRING, pieces),
        "tokenizer.ggml.token_type": (ARRAY, I32, types),
        "tokenizer.ggml.merges": (ARRAY, STRING, []),
        "tokenizer.ggml.eos_token_id": (U32, end),
        "tokenizer.ggml.add_bos_token": (BOOL, False),
    }


def asked(case: dict[str, Any], prompt: int) -> dict[str, Any]:
    """Return what test_over_http.py asks for and expects."""
    options = case.get("options", {})
    text = "".join([step["out"] for step in case["steps"]])
    most = options.get("max_tokens", len(pushes(case)) + 1)
    body = {"prompt": "x" * prompt, "max_tokens": most}
    body |= {"stop": options["stop"]} if "stop" in options else {}
    return {"id": case["id"], "why": case["why"], "body": body, "text": text}


def write(folder: Path, suite: dict[str, Any]) -> Script:
    """Write the model and its cases into a folder, and return the script."""
    tokenizer, end = suite["vocabularies"][VOCABULARY], end_of(suite)
    cases = [case for case in suite["cases"] if claimed(case, end)]
    script, count = script_of(cases, end), end + len(tokenizer["added_tokens"])
    tensors, positions = weights(script, count), len(script.ids)
    config = {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": count,
        "n_positions": positions, "n_embd": WIDTH, "n_layer": 1, "n_head": 2,
        "layer_norm_epsilon": 1e-5, "bos_token_id": end, "eos_token_id": end,
        "tie_word_embeddings": True, "torch_dtype": "float32",
    }  # fmt: skip
    of_tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}
    of_tokenizer |= {"add_bos_token": False, "clean_up_tokenization_spaces": False}
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in {
        "config.json": config,
        "generation_config.json": {"eos_token_id": end},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": of_tokenizer,
        "cases.json": [asked(case, script.prompts[case["id"]]) for case in cases],
    }.items():
        (folder / name).write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    (folder / "script.gguf").write_bytes(gguf(gguf_values(tokenizer, positions, end), tensors))
    return script


if __name__ == "__main__":
    suite_file = Path(__file__).resolve().parents[1] / "cases.json"
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("cases", type=Path, nargs="?", metavar="CASES.json", default=suite_file)
    given = parser.parse_args()
    made = write(given.folder, json.loads(given.cases.read_text("utf-8")))
    print(f"{given.folder}: {len(made.prompts)} cases, {len(made.ids)} positions")
