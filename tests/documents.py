"""The code blocks of the documents, and the comments above them that say how they are tested.

A comment stands above a block, and GitHub does not show it:

- `<!-- shows SELECTOR: TEXT -->`: what an element shows in the end; `…` stands for any text.
- `<!-- click: NAME -->` and `<!-- choose: FILE -->`: what a reader does before.
- `<!-- run by FILE -->`: another test runs it, and names the document.
- `<!-- not run: REASON -->`.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "conformance" / "README.md",
    ROOT / "web" / "README.md",
]
IN_A_BROWSER = ("html", "js", "jsx", "svelte", "vue")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    """Return a document without its code blocks and comments."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def spans(path: Path) -> list[str]:
    """Return the pieces of inline code of a document."""
    found = re.findall(r"(?<!`)`((?:[^`\n]|\n(?!\n))+)`(?!`)", prose(path))
    return [" ".join(span.split()) for span in found]


class Block(NamedTuple):
    """A code block: `marks` are its comments, such as ("shows bubble", "Hello")."""

    document: str
    line: int
    language: str
    text: str
    marks: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    def marked(self, kind: str) -> list[tuple[str, str]]:
        """Return the marks of a kind: the words after the first one, and the text."""
        return [
            (mark[len(kind) :].strip(), text)
            for mark, text in self.marks
            if mark.split()[0] == kind
        ]

    @property
    def in_browser(self) -> bool:
        """Whether a browser runs it: it has a mark with the expected text then."""
        return bool(self.marked("shows"))


def blocks() -> list[Block]:
    """Return the blocks of all documents."""
    found = []
    for path in DOCUMENTS:
        marks: list[tuple[str, str]] = []
        language, first, lines = "", 0, None
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            fence = re.fullmatch(r"```(\w*)", line)
            if lines is not None:
                if fence:
                    text = "".join(f"{each}\n" for each in lines)
                    found.append(Block(name(path), first, language, text, tuple(marks)))
                    lines, marks = None, []
                else:
                    lines.append(line)
            elif fence:
                language, first, lines = fence[1], number, []
            elif mark := re.fullmatch(r"<!-- (.*?)(?:: ?(.*))? -->", line):
                marks.append((mark[1], mark[2] or ""))
            elif line.strip():
                marks = []
    return found
