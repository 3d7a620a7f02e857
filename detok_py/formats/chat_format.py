"""The public name of a format: `ChatFormat`."""

from .table import FORMATS

MOST_NEAR = 3  # names that an error message proposes


class ChatFormat:
    """The markup that a model writes around its answers: `name`, and what it was `found_by`.

    `Tokenizer.chat_format` is the format of a tokenizer file; `named` returns one by its name.

    >>> ChatFormat.named("harmony")
    <ChatFormat harmony, found by its name>
    """

    __slots__ = ("found_by", "name")

    def __init__(self, name: str, found_by: str) -> None:
        self.name: str = name
        self.found_by: str = found_by

    def __repr__(self) -> str:
        return f"<ChatFormat {self.name}, found by {self.found_by}>"

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all formats, sorted.

        >>> ChatFormat.names()[:3]
        ['apertus', 'command_a', 'deepseek_v3.1']
        """
        return sorted(FORMATS)

    @classmethod
    def named(cls, name: str) -> "ChatFormat":
        """Return the format of this name. Raises ValueError, which proposes near names, if there is
        none.

        >>> ChatFormat.named("qwen3")
        Traceback (most recent call last):
            ...
        ValueError: no chat format is named 'qwen3'; near are qwen3.5, qwen3_coder, qwen3_hermes;
        ChatFormat.names() lists all
        """
        if name in FORMATS:
            return cls(name, "its name")
        near = sorted(FORMATS, key=lambda each: (-_likeness(str(name), each), each))[:MOST_NEAR]
        raise ValueError(
            "no chat format is named "
            + repr(name)
            + "; near are "
            + ", ".join(sorted(near))
            + "; ChatFormat.names() lists all"
        )


def _likeness(a: str, b: str) -> int:
    """Return how many pairs of neighbouring characters two names have in common, and how many
    characters at their beginning.
    """
    a, b = a.lower().replace("-", "_"), b.lower()
    pairs = [b[i : i + 2] for i in range(len(b) - 1)]
    common = sum([a[i : i + 2] in pairs for i in range(len(a) - 1)])
    while a and b and a[0] == b[0]:
        a, b, common = a[1:], b[1:], common + 1
    return common
