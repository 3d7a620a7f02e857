"""A tool call of an answer, as a ChatStream returns it."""

MOST_NAME = 256  # characters of a call's name, what is longer is no name; OpenAI's API allows 64


class ToolCall:
    """A call: `id` and `name` as far as the markup has them, `arguments` as JSON text, and whether
    it is `complete`. `parts` are the pieces in which the arguments came, and `ahead` is the part of
    the next one that was shown early.
    """

    def __init__(
        self, id: str | None, name: str, *, arguments: str = "", complete: bool = False
    ) -> None:
        self.id: str | None = id
        self.name: str = name
        self.complete: bool = complete
        self.parts: list[str] = [arguments] if arguments else []
        self.ahead: str = ""

    @property
    def arguments(self) -> str:
        """The arguments so far, as JSON text."""
        return "".join(self.parts) + self.ahead

    def __repr__(self) -> str:
        return f"ToolCall({self.id!r}, {self.name!r}, {self.arguments!r}, {self.complete})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolCall) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self.name)
