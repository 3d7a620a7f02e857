"""The chat template that lies beside a tokenizer file, as text.

In: a function that returns the files of a folder. Out: the template, and what Hugging Face calls
`response_template`. Neither is rendered: a format is recognized by the strings in them.
"""

from collections.abc import Callable
from typing import Any

from ..formats.find import strings_in
from .strict_json import loads


def read(content: Callable[[str], bytes | None]) -> tuple[str | None, Any]:
    """Return the chat template of a folder, None if it has none, and its response template.

    chat_template.jinja is read in place of the template in tokenizer_config.json, as transformers
    does; chat_template.json is where processors had it. Raises TokenizerFormatError if a file that
    mentions a template is not JSON.
    """
    config = _object(content, "tokenizer_config.json")
    file = content("chat_template.jinja")
    if file is not None:
        template = file.decode("utf-8", "replace")
    else:
        named = config.get("chat_template") or _object(content, "chat_template.json").get(
            "chat_template"
        )
        template = "\n".join(strings_in(named))
    return template or None, config.get("response_template")


def _object(content: Callable[[str], bytes | None], name: str) -> dict[str, Any]:
    """Return the JSON object of a file that mentions a template, else an empty one."""
    data = content(name)
    value = loads(data, name, constants=True) if data is not None and b"_template" in data else {}
    return value if isinstance(value, dict) else {}
