"""The public name of a format: `ChatFormat`."""

from typing import Any

from .find import find_format
from .table import FORMATS, Format, call, form

MOST_NEAR = 3  # names that an error message proposes


class ChatFormat:
    """The markup that a model writes around its answers: its `name`, what it was `found_by`, and
    its entry of the table, `spec`.

    `Tokenizer.chat_format` is the format of a tokenizer file; `named` returns one by its name, and
    `from_template` one that a file describes. `ChatStream(…, format=…)` takes it.

    >>> ChatFormat.named("harmony")
    <ChatFormat harmony, found by its name>
    """

    __slots__ = ("found_by", "name", "spec")

    def __init__(self, name: str, found_by: str, spec: "Format | None" = None) -> None:
        self.name: str = name
        self.found_by: str = found_by
        self.spec: Format = FORMATS[name] if spec is None else spec

    def __repr__(self) -> str:
        return f"<ChatFormat {self.name}, found by {self.found_by}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChatFormat) and (self.name, self.spec) == (other.name, other.spec)

    def __hash__(self) -> int:
        return hash((self.name, self.spec))

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
            f"no chat format is named {name!r}; near are {', '.join(sorted(near))}; ChatFormat.names() lists all"
        )

    @classmethod
    def from_template(cls, response_template: "dict[str, Any]") -> "ChatFormat":
        """Return the format that a `response_template` of Hugging Face describes, as
        tokenizer_config.json may have one (transformers, "Response Parsing").

        If its strings are those of a format in the table, returns that. Otherwise reads its fields
        `thinking`, `content` and `tool_calls`: `open` and `close` must be strings, and calls JSON,
        an object with a name and arguments or an array of them. A tag is text, in which special
        tokens begin with < or [; newlines at its ends are left out, because those around a tag are
        markup. Raises ValueError, which names the field, for a field that has
        patterns or other content, an empty tag, or a word on a line of its own as a tag.

        >>> template = {"fields": {"thinking": {"open": "<r>", "close": "</r>"}, "content": {}}}
        >>> ChatFormat.from_template(template)
        <ChatFormat response_template, found by the fields of a response template: thinking>
        """
        if not isinstance(response_template, dict):
            raise TypeError(
                f"a response template is a dict, not {response_template.__class__.__name__}"
            )
        found = find_format(None, lambda spelling: False, response_template)
        if found is not None:
            return cls(found.name, found.found_by)
        fields = response_template.get("fields")
        if not isinstance(fields, dict) or not fields:
            raise ValueError('this response template has no "fields"')
        tags: dict[str, tuple[str, str]] = {}
        for name, field in fields.items():
            found_tags = _tags_of(str(name), field)
            if found_tags is not None:
                tags[name] = found_tags
        calls = [call(tags[name][0], "array", tags[name][1]) for name in CALLS if name in tags]
        spec = form(
            *calls,
            thinks=tuple([tags[name] for name in THINKING if name in tags]),
            wraps=tuple([tags["content"]] if "content" in tags else []),
        )
        return cls(OWN, "the fields of a response template: " + ", ".join(tags), spec)


OWN = "response_template"  # the name of a format that is not in the table
THINKING = ("thinking", "reasoning", "reasoning_content")
CALLS = ("tool_calls",)


def _tags_of(name: str, field: Any) -> "tuple[str, str] | None":
    """Return what opens and closes a field of a response template, None if nothing does."""
    if not isinstance(field, dict) or name not in THINKING + CALLS + ("content",):
        raise ValueError(f'the field "{name}" of this response template is not known')
    opener, close = field.get("open"), field.get("close")
    if name == "content" and opener is None and "open_pattern" not in field:
        return None  # content is the text that no other field takes
    content = "json" if name in CALLS else "text"
    if not isinstance(opener, str) or not isinstance(close, str):
        raise ValueError(
            f'the field "{name}" of this response template has no strings as "open" and "close"'
        )
    if field.get("content", "text") != content or field.get("transform") or "content_args" in field:
        raise ValueError(
            f'the field "{name}" of this response template is not plain {content}; take a format by name'
        )
    for tag in (opener, close):
        if tag != tag.strip("\n") and tag.strip("\n")[:1] not in ("", "<", "["):
            raise ValueError(
                f'the field "{name}" of this response template has a tag that is a word on a line of its own'
            )
    opener, close = opener.strip("\n"), close.strip("\n")
    if not opener or not (close or name in CALLS):  # calls may end without a tag
        raise ValueError(f'the field "{name}" of this response template has an empty tag')
    return opener, close


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
