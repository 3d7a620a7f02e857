"""The code names that documents show, and whether the repository still has them.

A name is `snake_case`, `camelCase`, `Like.this`, `--an-option`, an environment variable, or the
path of a file. The repository has a name if its code has it as a word: comments and docstrings do
not count, JSDoc's `@property`, `@param` and `@typedef` do.
"""

import functools
import re
import subprocess
from pathlib import Path

from documents import ROOT

# Names of other projects, of files that a reader makes, and of a file's content. The code of this
# repository does not have them.
FOREIGN = {
    # vLLM, llama-cpp-python, Deno
    "--tokens-only", "--enable-scale-out", "CMAKE_ARGS", "--allow-read",
    # pre-tokenizers of llama.cpp that detok does not have
    "afmoe", "chameleon", "superbpe", "tiny_aya", "youtu", "UNK_BYTE_0x",
    # llama.cpp's sampling, assistant-ui, deep-chat
    "min_p", "targetText.slice", "requestBodyLimits",
    # HTTP headers, and hosts that other UIs ask
    "ETag", "Range", "cdn.jsdelivr.net", "fonts.googleapis.com", "host.docker.internal",
    # an example of an engine that is called `big`, of an adapter, and what make_model.py writes
    "DETOK_ENGINE_API_KEY_BIG", "adapter.mjs", "model/script.gguf",
    # uv; ROCm's tools and cards, SGLang and Lemonade on them
    "--from", "rocminfo", "gfx1100", "gfx1151", "SGLANG_USE_AITER", "--llamacpp",
    # prometheus-client adds the last word
    "detok_refused_total", "detok_store_failures_total",
}  # fmt: skip

SOURCES = (
    ".cfg",
    ".css",
    ".html",
    ".js",
    ".json",
    ".jsx",
    ".mjs",
    ".py",
    ".sh",
    ".svelte",
    ".toml",
)
SOURCES += (".ts", ".tsx", ".vue", ".yaml", ".yml")
# The tests of names have names that are gone.
NOT_SOURCES = re.compile(
    r"docs/|tests/.*fixtures/|conformance/cases|package-lock|tests/(documented|test_docs)_names"
)
BUILT = (".build/", "dist/", "node_modules/")  # made by builds and set-ups
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
PATH = re.compile(r".*/.*|.*\.(?:css|html|js|json|md|mjs|py|sse|toml|yaml|yml)")


@functools.cache
def tracked() -> list[str]:
    """Return the paths of the repository's files."""
    told = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in told.stdout.splitlines() if (ROOT / path).is_file()]


@functools.cache
def folders_and_files() -> set[str]:
    """Return each path, and each end of it: `web/src/socket.js`, `src/socket.js`, `socket.js`."""
    whole = {str(each) for path in tracked() for each in (path, *Path(path).parents)}
    parts = [path.split("/") for path in whole]
    return {"/".join(path[at:]) for path in parts for at in range(len(path))}


def code_of(path: Path) -> str:
    """Return the text of a source file without its comments and docstrings."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        text = re.sub(r'^\s*r?"""(?:[^\\]|\\.)*?"""', "", text, flags=re.MULTILINE | re.DOTALL)
        return re.sub(r"(?:^|  )#.*$", "", text, flags=re.MULTILINE)
    if path.suffix in (".js", ".mjs", ".ts", ".tsx", ".jsx"):
        declared = re.compile(r"@(?:property|param|typedef|template|callback)\b.*")
        text = re.sub(
            r"/\*.*?\*/", lambda m: " ".join(declared.findall(m[0])), text, flags=re.DOTALL
        )
        return re.sub(r"(?:^|\s)//.*$", "", text, flags=re.MULTILINE)
    return text


@functools.cache
def code() -> str:
    """Return the code of the repository."""
    paths = [path for path in tracked() if path.endswith(SOURCES) or path.startswith("Makefile")]
    return "\n".join(code_of(ROOT / path) for path in paths if not NOT_SOURCES.match(path))


@functools.cache
def words() -> set[str]:
    return set(re.findall(r"\w+", code()))


@functools.cache
def options() -> set[str]:
    return set(OPTION.findall(code()))


def block_at(lines: list[str], start: int) -> list[str]:
    """Return the lines of the class that begins at a line: those that are indented further."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    for end in range(start + 1, len(lines)):
        line = lines[end].strip()
        if line and line[0] not in ")]}" and not lines[end].startswith(" " * (indent + 1)):
            return lines[start:end]
    return lines[start:]


@functools.cache
def class_body(name: str) -> str | None:
    """Return the code of the classes of a name, with their bases'. None if a class is foreign."""
    lines = code().splitlines()
    heads = [at for at, line in enumerate(lines) if re.search(rf"\bclass {name}\b", line)]
    bodies = ["\n".join(block_at(lines, at)) for at in heads]
    bases = {base for at in heads for base in re.findall(r"\b[A-Z]\w+", lines[at])} - {name}
    bodies += [class_body(base) for base in bases]
    return "\n".join(bodies) if heads and None not in bodies else None


def has_module(dotted: str) -> bool:
    """Return whether a dotted name that begins with the package is a module, or a name in it."""
    path, *rest = ROOT, *dotted.split(".")
    while rest and (path / rest[0]).is_dir():
        path /= rest.pop(0)
    if rest and (path / f"{rest[0]}.py").exists():
        path /= f"{rest.pop(0)}.py"
    file = path / "__init__.py" if path.is_dir() else path
    return not rest or bool(re.search(rf"\b{rest[0]}\b", code_of(file)))


def has_path(path: str) -> bool:
    """Return whether there is such a file or folder, the code writes that name, or it is the id of
    a case of the conformance suite.
    """
    path = path.removeprefix("./").rstrip("/")
    if path.startswith(BUILT):
        return all(part in code() for part in path.split("/"))
    pattern = re.sub(r"<\w+>|\*", "[^/]+", path.replace(".", r"\."))
    if pattern != path.replace(".", r"\."):
        return any(re.fullmatch(pattern, each) for each in folders_and_files())
    if path in folders_and_files() or path in code():
        return True
    return f'"id": "{path}"' in (ROOT / "conformance" / "cases.json").read_text("utf-8")


def has_name(name: str) -> bool:
    """Return whether the code has a name."""
    if name.startswith("--"):
        return name in options()
    if re.match(r"detok_py\.[a-z]", name) and not PATH.fullmatch(name):
        return has_module(name)
    if PATH.fullmatch(name):
        return has_path(name)
    first, *rest = re.findall(r"\w+", name)
    body = class_body(first) if rest and first[0].isupper() else None
    known = words() if body is None else set(re.findall(r"\w+", body))
    return first in words() and all(each in known for each in rest)


def names_in(span: str) -> set[str]:
    """Return the names in a piece of code.

    >>> names_in("detok serve --store redis://…"), sorted(names_in("watch.check({ maxLate: 5 })"))
    ({'--store'}, ['maxLate', 'watch.check'])
    >>> names_in("web/src/socket.js"), names_in("text"), names_in("some text")
    ({'web/src/socket.js'}, {'text'}, set())
    """
    found = set(OPTION.findall(span))
    rest = re.sub(r"\w+://\S*", "", OPTION.sub("", span))
    for word in re.findall(r"[\w.@#/<>*-]*\w[>/]?", rest):
        word = word.removeprefix("@").lstrip(".") if "/" not in word else word.strip("-")
        is_path = PATH.fullmatch(word) and re.search(r"[a-z]", word) and word[0] != "/"
        is_name = re.fullmatch(r"[A-Za-z_#][\w.#]*", word)
        if is_path or (is_name and (word == span or re.search(r"_|[a-z][A-Z]|\.", word))):
            found.add(word)
    return found
