"""Compute how often tokenizers split characters, by script: `python tools/script_risks.py`.

In: the texts that the included model recites, and six vocabularies of the large test data
(DETOK_DATA). Out: the table of scripts in docs/how-decoding-works.md, written anew; `--check`
writes nothing, and says whether the page has what comes out.

Characters of ASCII are not counted: no vocabulary can split them. Any other character is split if a
token ends inside it: its bytes come with more than one token, and a decoder of single tokens shows
U+FFFD for it.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.rows import DATA, unpacked  # noqa: E402
from detok_py import Tokenizer, load_tokenizer  # noqa: E402

PAGE = ROOT / "docs" / "how-decoding-works.md"
# The table of the page is the one with this head.
TABLE = re.compile(r"^\| script \|.*\n(\|.*\n)+", re.MULTILINE)
VOCABULARIES = {
    "gpt2": "GPT-2",
    "llama2": "Llama 2",
    "llama3": "Llama 3",
    "qwen2_5": "Qwen 2.5",
    "gemma2": "Gemma 2",
    "o200k": "o200k",
}
# The texts in each script, by their ids.
SCRIPTS = {
    "Latin, accented": ("de", "fr", "es", "pt", "it", "pl", "cs", "hu", "tr", "vi"),
    "Cyrillic": ("ru", "uk", "mn"),
    "Greek": ("el",),
    "Hebrew": ("he",),
    "Arabic": ("ar", "fa", "ur"),
    "Devanagari": ("hi", "conjuncts"),
    "Bengali": ("bn",),
    "Tamil": ("ta",),
    "Telugu": ("te",),
    "Sinhala": ("si",),
    "Thai": ("th",),
    "Lao": ("lo",),
    "Khmer": ("km",),
    "Burmese": ("my",),
    "Tibetan": ("bo",),
    "Georgian": ("ka",),
    "Armenian": ("hy",),
    "Ethiopic": ("am",),
    "Chinese": ("zh-hans", "zh-hant"),
    "Japanese": ("ja",),
    "Korean": ("ko",),
    "rare scripts and letters": ("astral",),
    "emoji and flags": ("emoji", "flags"),
}


def texts() -> dict[str, str]:
    """Return the text of each row."""
    path = ROOT / "detok_py" / "bridge" / "recite" / "texts.json"
    found = {one["id"]: one["text"] for one in json.loads(path.read_text("utf-8"))}
    return {script: "\n".join(found[i] for i in ids) for script, ids in SCRIPTS.items()}


def tokenizer_of(name: str) -> Tokenizer:
    """Load a tokenizer of the test data."""
    with tempfile.TemporaryDirectory() as folder:
        return load_tokenizer(unpacked(DATA, Path(folder), f"{name}/tokenizer.json"))


def split(tokenizer: Tokenizer, text: str) -> tuple[int, int]:
    """Return how many characters outside ASCII a text has, and how many of them a token splits.

    >>> from detok_py import Vocabulary
    >>> class Bytes:
    ...     vocabulary = Vocabulary.from_bytes([b"\\xc3", b"\\xa9", b"e", "é".encode()])
    ...
    ...     def encode(self, text):
    ...         return [2, 3, 0, 1]
    >>> split(Bytes(), "eéé")
    (2, 1)
    """
    table, ids = tokenizer.vocabulary, tokenizer.encode(text)
    data, cuts = b"", set()
    for i in ids:
        data += table.token_bytes(i)
        cuts.add(len(data))
    assert data.endswith(text.encode()), "the tokens are not the text"
    place, wide, broken = len(data) - len(text.encode()), 0, 0
    for character in text:
        size = len(character.encode())
        wide += size > 1
        broken += any(place + at in cuts for at in range(1, size))
        place += size
    return wide, broken


def table() -> str:
    """Return the table, as Markdown."""
    tokenizers = {title: tokenizer_of(name) for name, title in VOCABULARIES.items()}
    lines = [
        "| script | bytes a character | " + " | ".join(tokenizers) + " |",
        "|---|--:|" + "--:|" * len(tokenizers),
    ]
    for script, text in texts().items():
        wide = [character for character in text if not character.isascii()]
        size = sum(len(character.encode()) for character in wide) / len(wide)
        counts = [split(tokenizer, text) for tokenizer in tokenizers.values()]
        shares = [f"{broken / many:.0%}" for many, broken in counts]
        lines.append(f"| {script} | {size:.1f} | " + " | ".join(shares) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and compare")
    checks = parser.parse_args().check
    page = PAGE.read_text("utf-8")
    written, count = TABLE.subn(table(), page)
    assert count == 1, f"{PAGE} has no table of scripts"
    if checks:
        print("the same" if page == written else f"{PAGE} is not what comes out")
        return int(page != written)
    PAGE.write_text(written, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
