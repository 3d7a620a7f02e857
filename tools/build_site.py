"""Build the page and the documents as a static site: `python tools/build_site.py [FOLDER]`.

In: .build/page/, .build/runtime/, the tokenizer of the reciting model, the samples; docs/, and the
tools in .build/docs/; what tools/build_notebooks.py takes. Out: a folder that any static server can
serve, at any path, without a network. Texts are cut by Python in the page's worker, so there is no
bridge; addresses in index.html are relative.
"""

import argparse
import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

import build_notebooks

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / ".build" / "page"
RUNTIME = ROOT / ".build" / "runtime"
# Without micropip: on a site Pyodide comes with detok_py in it.
PARTS = (
    "micropython.mjs", "micropython.wasm", "detok_micropython.bin", "detok_captures.bin",
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_core.zip", "python_core.json",
)  # fmt: skip

# What runs the examples of the documents, and the names that the page's Python does not have.
RUN = ("run.js", "run-worker.js", "run.py")
NOT_THERE = re.compile(r"\bd\.(TokenList|widget|open)\b")

ACCESSIBLE = (
    (r'<div class="col-content">', '<div class="col-content" role="main">'),
    (r'<div class="page-menu">', '<div class="page-menu" role="complementary" aria-label="This page">'),
    (r"<table.*?</table>", r'<div class="wide" role="group" aria-label="Table" tabindex="0">\g<0></div>'),
    (r"<th([^>]*)></th>", r"<td\1></td>"),
    (r"<pre>", '<pre tabindex="0">'),
    (r'<a class="headerlink" href="#([^"]+)">', r'<a class="headerlink" href="#\1" aria-label="Link to \1">'),
    (r'<a [^>]*class="tsd-anchor-icon"><svg[^>]*><use[^>]*></use></svg></a>(</h\d></summary>)', r"\1"),
    (r'<div class="attr function">', '<div class="attr function" role="group" tabindex="0">'),
    (r'<main class="pdoc"></main>', '<main class="pdoc"><h1>Python: detok_py</h1></main>'),
)  # fmt: skip


def build(folder: Path) -> None:
    """Write the site into a folder, which is emptied first. Raises FileNotFoundError if the runtime
    is not built.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PAGE, folder / "page", ignore=shutil.ignore_patterns("index.html"))
    (folder / "index.html").write_text(index_page(), encoding="utf-8")
    for name in PARTS:
        copy(RUNTIME / name, folder / "runtime")
    copy(ROOT / "detok_py" / "bridge" / "recite" / "tokenizer.json", folder)
    for name in ("uplot.js", "uplot.css"):  # the page loads them to draw times
        copy(ROOT / ".build" / "examples" / name, folder / "examples" / "built")
    copy(ROOT / "LICENSE", folder)
    copy(ROOT / "web" / "THIRD-PARTY.md", folder)
    # GitHub Pages would leave out files whose names begin with an underscore.
    (folder / ".nojekyll").touch()


def build_docs(folder: Path) -> None:
    """Write the documents and both references into a folder, which is emptied first. Raises
    CalledProcessError if a public name is not documented, or a link has no target.
    """
    shutil.rmtree(folder, ignore_errors=True)
    site = ROOT / "tools" / "site"
    python = ROOT / ".build" / "docs" / "venv" / "bin" / "python"
    subprocess.run(["node", site / "draw.mjs", folder], check=True)
    subprocess.run([python, site / "python_reference.py", folder / "python"], check=True)
    for name in RUN:
        copy(site / name, folder)
    for file in folder.rglob("*.html"):
        page = accessible(file.read_text("utf-8"))
        file.write_text(runnable(page, len(file.relative_to(folder).parts) - 1), encoding="utf-8")


def runnable(page: str, depth: int) -> str:
    """Return a page whose Python examples are marked, if they can run in it, and with the script
    that runs them. They show something, and need detok_py's core and nothing else.
    """

    def marked(found: re.Match[str]) -> str:
        text = html.unescape(re.sub(r"<[^>]*>", "", found[1].replace("<br/>", "\n")))
        needed = set(re.findall(r"^(?:>>> )?(?:from|import) (\S+)", text, re.MULTILINE))
        shows = text.startswith(">>> ") or ("print(" in text and "await " not in text)
        runs = shows and needed <= {"detok_py", "json"} and not NOT_THERE.search(text)
        return found[0].replace(">", " data-run>", 1) if runs else found[0]

    page = re.sub(r'<code class="python">(.*?)</code>', marked, page, flags=re.DOTALL)
    if "data-run>" not in page:
        return page
    script = f'<script type="module" src="{"../" * depth}run.js"></script>'
    return page.replace("</head>", f"{script}</head>")


def accessible(page: str) -> str:
    """Return a page of TypeDoc or pdoc with what assistive technology and narrow screens need, and
    both tools leave out: a main landmark, names of links, and boxes that scroll by keyboard.
    """
    for pattern, new in ACCESSIBLE:
        page = re.sub(pattern, new, page, flags=re.DOTALL)
    page = without_skips(page)
    style = (ROOT / "tools" / "site" / "site.css").read_text("utf-8")
    return page.replace("</head>", f"<style>{style}</style></head>")


def without_skips(page: str) -> str:
    """Return a page in which no heading is more than one level below the one before."""
    last = 0

    def heading(found: re.Match[str]) -> str:
        nonlocal last
        level, last = int(found[1]), min(int(found[1]), last + 1)
        return f"<h{level}" if level == last else f'<h{level} aria-level="{last}"'

    return re.sub(r"<h([1-6])(?=[\s>])", heading, page)


def index_page() -> str:
    """Return index.html with relative addresses, marked as part of a site, with a link to the
    site's documents, with what it says of a site in place of what it says of a bridge, and without
    the link to the examples, which need a bridge.
    """
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    page = re.sub(r'(href|src)="/(?!/)', r'\1="', page)
    page = re.sub('(<a id="to-documents" href=")[^"]+', r"\1docs/index.html", page)
    page = re.sub(' <a id="to-examples".*?</a>', "", page)
    page = re.sub('<span class="bridge">.*?</span>', "", page)
    page = page.replace('<span class="site" hidden>', "<span>")
    return page.replace("<html ", "<html data-site ", 1)


def copy(file: Path, folder: Path) -> None:
    """Copy a file into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, folder / file.name)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Build the page and the documents as a static site."
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / ".build" / "site")
    folder = parser.parse_args(words).folder
    build(folder)
    build_docs(folder / "docs")
    build_notebooks.build(folder / "notebooks")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB; serve it with any static server, for example")
    print(f"python3 -m http.server --directory {folder} 8000")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
