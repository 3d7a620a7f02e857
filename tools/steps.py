"""The steps of the set-up: what each makes, from what, and which a `make` target needs.

Plain data: tools/setup.py does the steps, and skips those whose sources have not changed.

Why not the dependencies of `make` itself? `make` compares times where setup.py compares contents.
After `git switch` to another commit and back, nothing has changed, and `make` would build the four
parts of the runtime again: 9 s of CPU, where setup.py takes 0.2 s to find that out. `make` also has
no pattern for files in all folders below one, does not notice a file that was removed or a package
list that was replaced by an older one, and has no lock for two of them at a time. Why not uv? It
installs Python's packages here, and knows nothing of npm, Pyodide, MicroPython and the page. A rule
for each step in the Makefile, with a command line for each function of tools/toolchain.py, comes to
some 90 lines in place of these two files' 220, and gives up the above.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import toolchain
from toolchain import PYTHON, install, install_if_there, run


class Step(NamedTuple):
    """`work` makes `results` from `sources`; both are patterns of paths."""

    purpose: str
    sources: tuple[str, ...]
    results: tuple[str, ...]
    work: Callable[[], object]


def tool(*words: str) -> Callable[[], object]:
    """Return a step's work: run a tool of this folder."""
    return partial(run, list(words), f"{words[1]} failed.")


SOURCES = ("detok_py/**/*.py", "detok_py/captures/*.json", "tools/layout.py", "pyproject.toml")
VENV = ".venv/pyvenv.cfg"
R = ".build/runtime/"
STEPS = {
    "serve": Step("the server's packages", ("requirements/serve.txt", VENV), (".venv/bin/uvicorn",), partial(install, "serve")),
    "engine": Step("llama.cpp", ("requirements/engine.txt", VENV), (), partial(install_if_there, "engine", "the scripted engine remains")),
    "mpy": Step("MicroPython's compiler", ("requirements/mpy.txt", VENV), (), partial(install_if_there, "mpy", "MicroPython compiles the modules at its start")),
    "dev": Step("the tools' packages", ("requirements/dev.txt", VENV), (".venv/bin/pytest",), partial(install, "dev")),
    "webkit": Step("Selenium", ("requirements/webkit.txt", VENV), (".venv/lib/*/site-packages/selenium/__init__.py",), partial(install, "webkit")),
    "clients": Step("OpenAI's client", ("requirements/clients.txt", VENV), (".venv/lib/*/site-packages/openai/__init__.py",), partial(install, "clients")),
    "mutants": Step(
        "cosmic-ray and Stryker",
        ("requirements/mutants.txt", "tools/stryker/package-lock.json"),
        (".build/mutants/venv/lib/python*/site-packages/cosmic_ray/__init__.py", ".build/mutants/node_modules/@stryker-mutator/core/package.json"),
        partial(toolchain.install_apart, "mutants", "tools/stryker"),
    ),
    "pictures": Step("Pillow", ("requirements/pictures.txt",), (".build/pictures/site/PIL/__init__.py",), partial(install, "pictures", toolchain.BUILD / "pictures" / "site")),
    "project": Step("detok_py in place", ("pyproject.toml", "tools/hatch_build.py", VENV), (".venv/bin/detok",), toolchain.install_project),
    "npm": Step("the packages from npm", ("package-lock.json",), ("node_modules/pyodide/pyodide.mjs",), toolchain.install_node_packages),
    "micropip": Step("micropip", ("requirements/micropip.txt",), (".build/wheels",), toolchain.fetch_micropip),
    "site": Step("pytest for Pyodide", ("requirements/pyodide.txt", "tools/toolchain.py"), (".build/pyodide-site/pytest",), toolchain.install_for_pyodide),
    "runtime": Step(
        "Pyodide, with its standard library as bytecode",
        ("tools/build_runtime.mjs", "tools/compile_stdlib.py", "web/src/memory-snapshot.js", "web/src/micropip.js", "package-lock.json", "requirements/micropip.txt"),
        (f"{R}python_stdlib.zip", f"{R}pyodide-lock.json", f"{R}micropip-*.whl", f"{R}memory.bin"),
        tool("node", "tools/build_runtime.mjs"),
    ),
    "wheel": Step("the wheels for browsers", (*SOURCES, "detok_py/notebook/*.*s", "tools/browser_wheel.py", "package-lock.json"), (f"{R}detok_py-*-any.whl", f"{R}detok_py-*-wasm32.whl"), tool(str(PYTHON), "tools/browser_wheel.py")),
    "captures": Step(
        "what a page loads to open files",
        (*SOURCES, "tools/build_on_demand.py", "tools/browser_wheel.py"),
        (f"{R}detok_captures.bin",),
        tool(str(PYTHON), "tools/build_on_demand.py"),
    ),
    "micropython": Step(
        "MicroPython",
        (*SOURCES, "web/micropython/*.py", "tools/build_micropython.py", "tools/browser_wheel.py", "requirements/mpy.txt"),
        (f"{R}micropython.wasm", f"{R}detok_micropython.bin"),
        tool(str(PYTHON), "tools/build_micropython.py"),
    ),
    "core": Step(
        "Pyodide cut down, for embedding",
        (*SOURCES, "detok_py/glyphs/*.js", "tools/build_core.mjs", "tools/core_work.py", "tools/compile_stdlib.py", ".build/stamps/runtime"),
        (f"{R}python_core.zip", f"{R}python_core.json", f"{R}detok_bytecode.bin", ".build/kit.zip"),
        tool("node", "tools/build_core.mjs"),
    ),
    "page": Step(
        "the page in few files",
        ("web/demo/*.*", "web/demo/samples/*", "web/examples/chat/palette.css", "web/src/*.js", "tools/build_page.mjs", "package-lock.json"),
        (".build/page/index.html",),
        tool("node", "tools/build_page.mjs"),
    ),
    "examples": Step(
        "the examples that need a bundler",
        ("web/examples/*.js*", "web/examples/chat/markdown.js", "web/src/*.js", "tools/build_examples.mjs", "package-lock.json"),
        (".build/examples/react.js", ".build/examples/react.development.js", ".build/examples/ai-sdk.js", ".build/examples/uplot.js", ".build/examples/uplot.css", ".build/examples/markdown.js"),
        tool("node", "tools/build_examples.mjs"),
    ),
    "docs": Step(
        "what draws the documents",
        ("requirements/docs.txt", "tools/site/package-lock.json"),
        (".build/docs/venv/bin/pdoc", ".build/docs/node_modules/typedoc/package.json"),
        partial(toolchain.install_apart, "docs", "tools/site"),
    ),
    "notebooks": Step("what runs notebooks", ("requirements/notebooks.txt",), (".build/notebooks/venv/bin/jupyter-lite",), partial(toolchain.install_alone, "notebooks")),
    "lite": Step("the wheels of JupyterLite", ("requirements/lite.txt",), (".build/lite-wheels/*.whl",), toolchain.fetch_for_lite),
    "uis": Step(
        "chat UIs of other people (some 1.3 GB)",
        ("requirements/real-uis.txt", "tests/real_uis/package-lock.json"),
        (".build/real-uis/venv/bin/streamlit", ".build/real-uis/node_modules/deep-chat/package.json"),
        partial(toolchain.install_apart, "real-uis", "tests/real_uis"),
    ),
    "litellm": Step("LiteLLM (250 MB)", ("requirements/litellm.txt",), (".build/litellm/litellm/__init__.py",), partial(install, "litellm", toolchain.BUILD / "litellm")),
    "open-webui": Step("Open WebUI, where torch can be had (2.3 GB)", ("requirements/open-webui.txt", "tools/toolchain.py"), (), partial(toolchain.install_with_torch_if_there, "open-webui", "Open WebUI is not tried")),
    "peers": Step(
        "what detok is compared with (some 900 MB)",
        ("requirements/peers.txt", "benchmarks/peers/package-lock.json"),
        (".build/peers/venv/bin/transformers", ".build/peers/node_modules/js-tiktoken/package.json"),
        # Without scripts: one of them would download libraries for graphics cards.
        partial(toolchain.install_apart, "peers", "benchmarks/peers", "--ignore-scripts"),
    ),
    "parsers": Step("parsers of formats, where vLLM is (some 150 MB)", ("requirements/parsers.txt", "tools/toolchain.py"), (), toolchain.install_parsers_if_there),
    "release": Step(
        "what checks a release",
        ("requirements/release.txt", "tools/release/package-lock.json"),
        (".build/release/venv/bin/twine", ".build/release/node_modules/publint/package.json"),
        partial(toolchain.install_apart, "release", "tools/release"),
    ),
    "vllm": Step("vLLM, where it can be had (some 2 GB)", ("requirements/real-engines.txt", "tools/toolchain.py"), (), partial(toolchain.install_with_torch_if_there, "real-engines", "vLLM has no row")),
    "engines": Step(
        "engines of other people (some 2 GB)",
        ("requirements/real-engines.txt",),
        (".build/real-engines/venv/lib/python*/site-packages/torch/__init__.py",),
        partial(toolchain.install_with_torch, "real-engines"),
    ),
}  # fmt: skip
ARTEFACTS = [["runtime", "wheel", "captures", "micropython", "page", "examples"], ["core"]]
TARGETS = {
    "demo": [["serve", "npm"], ["engine", "mpy", "micropip"], *ARTEFACTS],
    "site": [["npm"], ["mpy", "micropip", "docs", "notebooks", "lite"], *ARTEFACTS],
    "check": [["dev", "npm"], ["engine", "mpy", "micropip", "project"], *ARTEFACTS],
    "test": [["dev", "npm"], ["engine", "mpy", "micropip", "project", "site"], *ARTEFACTS],
    "test-all": [
        ["dev", "npm"],
        ["engine", "mpy", "micropip", "project", "site"],
        *ARTEFACTS,
        ["webkit", "clients", "docs", "notebooks", "lite"],
    ],
    "mutants": [["dev", "npm"], ["engine", "mpy", "micropip", "project", "mutants"], *ARTEFACTS],
    "pictures": [["dev", "npm"], ["engine", "mpy", "micropip", "project", "pictures"], *ARTEFACTS],
    "release": [["dev", "npm"], ["engine", "mpy", "micropip", "project", "release"], *ARTEFACTS],
    "real-uis": [
        ["dev", "npm"],
        ["engine", "mpy", "micropip", "project", "uis", "litellm"],
        *ARTEFACTS,
        ["open-webui"],
    ],
    "peers": [["dev", "npm"], ["engine", "project", "peers"], ["vllm"], ["parsers"]],
    "bench": [
        ["dev", "npm"],
        ["engine", "mpy", "micropip", "project", "peers"],
        ["vllm"],
        ["parsers"],
        *ARTEFACTS,
    ],
    "real-engines": [["dev"], ["project", "engines"]],
}
