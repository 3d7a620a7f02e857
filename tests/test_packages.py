"""What is published for Python: which files the packages have, their size, content and metadata."""

import email
import gzip
import hashlib
import http.server
import io
import json
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import browser_wheel as packer
import layout
import pytest
import yaml
from local_server import local_server
from packed import ROOT, assert_links_are_absolute, built_once
from programs import ran

from detok_py import __version__ as VERSION

pytestmark = [pytest.mark.native, pytest.mark.full]  # about the files of the repository


CORE = layout.files("Pyodide")
SOURCE = '''"""What it is for."""
from typing import NamedTuple

class Pair(NamedTuple):
    """Two."""

    left: int
    right: int = 1  # a default

def f(x: int, *rest: str, key: str = "a") -> str:
    """Say it."""
    later: int
    text: str = """
        kept spaces
    """
    def inner() -> None:
        """Nothing."""
    match rest:
        case (Pair(number), _) | ("a" as number, _):
            return number
    return text + key  # joined
'''
BARE = """from typing import NamedTuple
class Pair(NamedTuple):
 left: int
 right: int = 1
def f(x, *rest, key='a'):
 a = '\\n        kept spaces\\n    '
 def inner():
  pass
 match rest:
  case [Pair(b), _] | ['a' as b, _]:
   return b
 return a + key"""


def test_a_packed_module_has_no_docstrings_comments_or_annotations_of_functions():
    assert packer.bare(SOURCE) == BARE


def test_a_packed_module_keeps_the_names_of_the_methods_of_named_tuples():
    modules = {"a.py": "def _replace():\n pass", "b.py": "pair._replace(first=1)"}
    assert packer.with_short_privates(modules) == modules


@pytest.fixture(scope="module")
def wheel():
    with zipfile.ZipFile(io.BytesIO(packer.page_wheel(smallest=True))) as wheel:
        yield wheel


def test_the_browser_wheel_is_small(wheel):
    assert wheel.fp.getbuffer().nbytes <= packer.MOST_BYTES


def test_the_packed_modules_load_a_rank_file_with_a_pattern_and_special_tokens(wheel, tmp_path):
    wheel.extractall(tmp_path)
    program = r"""
import base64, sys
sys.path.insert(0, sys.argv[1])
import detok_py as d
ranks = b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256))
tokenizer = d.load_tokenizer(ranks, "r50k_base", pattern=r"(?=a)\w|.", special_tokens=["<eos>"])
assert d.__file__.startswith(sys.argv[1])
print(tokenizer.encode("ab<eos>"))
"""
    done = ran(sys.executable, "-c", program, tmp_path, check=True)
    assert done.stdout == "[97, 98, 256]\n"


def test_the_same_files_give_the_same_archive():
    files = {"a/b.py": b"x = 1\n" * 50, "é.txt": b"", "c": bytes(range(256))}
    assert packer.zipped(files) == packer.zipped(files)
    with zipfile.ZipFile(io.BytesIO(packer.zipped(files))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == files


def test_the_browser_wheel_has_exactly_the_modules_for_pyodide(wheel):
    names = wheel.namelist()
    modules = [name for name in names if ".dist-info/" not in name]
    assert modules == [path.relative_to(ROOT).as_posix() for path in CORE]
    assert {"detok_py/page/answer.py", "detok_py/tokenizers/__init__.py"} <= set(modules)


def test_the_browser_wheel_lists_each_file_with_its_hash(wheel):
    (record,) = [name for name in wheel.namelist() if name.endswith("/RECORD")]
    lines = [line.split(",") for line in wheel.read(record).decode().splitlines()]
    assert [line[0] for line in lines] == wheel.namelist()
    for name, digest, size in lines[:-1]:
        assert (digest, size) == (
            "sha256=" + packer.urlsafe_sha256(wheel.read(name)),
            str(len(wheel.read(name))),
        )


@pytest.fixture(scope="module")
def package():
    """The tool that builds what is published."""
    return pytest.importorskip("package", reason="the build backend is not installed here")


@pytest.fixture(scope="module")
def dist(package):
    """A folder with all that is published, built from the current sources."""
    folders = (ROOT / ".build" / name for name in ("runtime", "page"))
    sources = [*(ROOT / name for name in git()), *(f for each in folders for f in each.rglob("*"))]
    sources += [ROOT / ".build" / "examples" / name for name in package.BUNDLED]
    return built_once("all", sources, lambda folder: package.build(folder / "dist")) / "dist"


def names(path):
    """The files in a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        return [one.name.partition("/")[2] for one in archive if one.isfile()]


def metadata(path):
    """The metadata of a wheel, parsed, and as it is."""
    with zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        raw = archive.read(name)
    return email.message_from_bytes(raw), raw


@pytest.fixture(scope="module")
def core(dist):
    return dist / f"detok_py-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def small(dist):
    (found,) = dist.glob("detok_py-*-pyemscripten_*.whl")
    return found


@pytest.fixture(scope="module")
def page(dist):
    return dist / f"detok_py_page-{VERSION}-py3-none-any.whl"


@pytest.mark.soak  # It packs everything once more.
@pytest.mark.timeout(900)
def test_the_same_sources_give_the_same_bytes(package, dist, tmp_path):
    package.build(tmp_path)
    assert len(list(dist.iterdir())) == 10
    built = [{path.name: path.read_bytes() for path in each.iterdir()} for each in (dist, tmp_path)]
    assert built[0].keys() == built[1].keys()
    assert [name for name in built[0] if built[0][name] != built[1][name]] == []


def test_every_wheel_is_small(core, small, page):
    most = {core: 840_000, small: packer.MOST_BYTES_OF_INDEX, page: 11_500_000}
    assert {
        path.name: path.stat().st_size for path in most if path.stat().st_size > most[path]
    } == {}


def test_the_core_has_its_modules_and_nothing_that_only_the_server_serves(core):
    tracked = git("detok_py")
    modules = [name for name in tracked if "/recite/" not in name]
    found = [name for name in names(core) if ".dist-info/" not in name]
    data = [f"detok_py/commands/{name}.json" for name in ("conformance", "formats")]
    assert sorted(found) == sorted([*modules, *data])


def test_the_wheel_for_pyodide_has_all_that_runs_there_and_the_metadata_of_the_other(core, small):
    assert [name for name in names(small) if ".dist-info/" not in name] == [
        "detok_py/__init__.py",
        f"detok_py/{packer.MODULES}",
    ]
    # Resolvers take it that all wheels of a version say the same.
    assert metadata(small)[1] == metadata(core)[1]
    with zipfile.ZipFile(small) as archive:
        with zipfile.ZipFile(archive.open(f"detok_py/{packer.MODULES}")) as modules:
            inner = {f"detok_py/{name}" for name in modules.namelist()}
        assert inner < set(names(core))
        folders = {name.split("/")[1] for name in inner if name.count("/") > 1}
        assert folders >= {"captures", "integrations", "tokenizers"}
        assert not folders & {"bridge", "commands", "glyphs"}
        (tags,) = [name for name in archive.namelist() if name.endswith("/WHEEL")]
        assert (
            f"Tag: {small.stem.partition('-')[2].partition('-')[2]}\n"
            in archive.read(tags).decode()
        )


def test_the_recipe_and_the_lock_entry_for_pyodide_name_the_file_of_the_release(dist, small, core):
    digest = hashlib.sha256(small.read_bytes()).hexdigest()
    home = dict(line.split(", ") for line in metadata(core)[0].get_all("Project-URL"))["Repository"]
    url = f"{home}/releases/download/v{VERSION}/{small.name}"
    recipe = yaml.safe_load((dist / "detok_py.meta.yaml").read_text("utf-8"))
    assert recipe["package"] == {"name": "detok-py", "version": VERSION, "top-level": ["detok_py"]}
    assert recipe["source"] == {"url": url, "sha256": digest}
    assert set(recipe) == {"package", "source", "about", "test"}
    (entry,) = json.loads((dist / "detok_py.pyodide-lock.json").read_text("utf-8")).values()
    lock = json.loads((ROOT / "node_modules/pyodide/pyodide-lock.json").read_text("utf-8"))
    assert set(entry) <= set(lock["packages"]["micropip"])
    wanted = ("detok-py", VERSION, url, digest, ["detok_py"], [])
    names = ("name", "version", "file_name", "sha256", "imports", "depends")
    assert tuple(entry[name] for name in names) == wanted


def git(*folders):
    """The files of the repository in some folders."""
    told = ran("git", "ls-files", *folders)
    if told.returncode:
        pytest.skip("not a clone")
    return told.stdout.split()


def test_the_page_has_every_file_that_the_bridge_serves_and_none_twice(page, dist):
    found = [name for name in names(page) if ".dist-info/" not in name]
    wanted = git("web/src", "web/examples")
    assert {f"detok_py_page/{name}" for name in wanted} == {
        name for name in found if name.startswith("detok_py_page/web/")
    }
    runtime = {name.partition("/runtime/")[2] for name in found if "/runtime/" in name}
    with zipfile.ZipFile(page) as archive:
        manifest = json.loads(archive.read("detok_py_page/runtime/manifest.json"))
        contents = [archive.read(name) for name in found]
        wasm = archive.read("detok_py_page/runtime/pyodide.asm.wasm.gz")
    assert {"pyodide.asm.wasm", "python_stdlib.zip", "micropython.wasm"} <= set(manifest)
    assert {name.removesuffix(".gz") for name in runtime} == set(manifest) | {"manifest.json"}
    assert len(runtime) == len(manifest) + 1
    assert len(set(contents)) == len(contents)
    built = (ROOT / ".build" / "runtime" / "pyodide.asm.wasm").read_bytes()
    assert gzip.decompress(wasm) == built
    sdist = names(dist / f"detok_py_page-{VERSION}.tar.gz")
    assert set(found) <= set(sdist)
    for name in ("recite/recite.gguf", "examples/react.js", "page/index.html", "page/start.js"):
        assert f"detok_py_page/{name}" in found


def test_both_distributions_say_where_they_come_from(core, page):
    for path in (core, page):
        fields = metadata(path)[0]
        assert fields["Version"] == VERSION
        urls = dict(line.split(", ") for line in fields.get_all("Project-URL"))
        assert {"Repository", "Documentation", "Changelog", "Issues"} == set(urls)
        assert all(url.startswith(urls["Repository"]) for url in urls.values())
        assert "LICENSE" in fields.get_all("License-File")
        assert fields["Description-Content-Type"] == "text/markdown"
        assert_links_are_absolute(fields.get_payload(), urls["Repository"])
    wanted = metadata(core)[0].get_all("Requires-Dist")
    assert f"detok-py-page=={VERSION}; extra == 'serve'" in wanted
    assert all("; extra ==" in line for line in wanted)
    assert not metadata(page)[0].get_all("Requires-Dist")


INSTALLER = """
import { loadPyodide } from "%s";
const [,, library, wheel, index] = process.argv;
const python = await loadPyodide({ stdLibURL: library, lockFileContents: { info: %s, packages: {} }, packageBaseUrl: "/" });
python.FS.writeFile("/lib/micropip.whl", (await import("node:fs")).readFileSync(wheel));
python.globals.set("index", index);
console.log(await python.runPythonAsync(`
import sys; sys.path.append("/lib/micropip.whl")
import micropip
await micropip.install("detok_py", index_urls=index + "/{package_name}/")
import importlib, inspect, pkgutil
import detok_py
s = detok_py.StreamingDetokenizer()
assert s.feed(bytes([0xC3])) + s.feed(bytes([0xA9])) == "é"
for module in pkgutil.walk_packages(detok_py.__path__, "detok_py."):
    if module.name != "detok_py.integrations.starlette":  # which is not installed there
        importlib.import_module(module.name)
undocumented = []
for name in detok_py.__all__:
    found = getattr(detok_py, name)
    parts = vars(found) if isinstance(found, type) else {}
    methods = [part for key, part in parts.items() if callable(part) and key[0] != "_"]
    undocumented += [each.__qualname__ for each in [found, *methods] if not inspect.getdoc(each)]
help = inspect.getdoc(detok_py.StreamingDetokenizer), inspect.signature(detok_py.Vocabulary.unpack)
chr(10).join([detok_py.__version__, " ".join(undocumented), help[0].split(chr(10))[0], str(help[1])])
`));
process.exit(0);
"""


class Index(http.server.SimpleHTTPRequestHandler):
    """A package index of one folder (PEP 503), which notes what is asked for."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path != "/simple/detok-py/":
            return super().do_GET()
        files = sorted(path.name for path in Path(self.directory).glob("detok_py-*.whl"))
        body = "".join(f'<a href="/{name}">{name}</a>' for name in files).encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_micropip_takes_the_small_wheel_whose_public_names_have_their_docstrings(
    dist, small, tmp_path
):
    runtime = ROOT / ".build" / "runtime"
    info = json.loads((runtime / "python_core.json").read_text())["info"]
    script = tmp_path / "install.mjs"
    script.write_text(INSTALLER % ((runtime / "pyodide.mjs").as_uri(), json.dumps(info)))
    (micropip,) = runtime.glob("micropip-*.whl")
    with local_server(Index, directory=str(dist)) as server:
        server.asked = []
        words = (script, runtime / "python_stdlib.zip", micropip, f"{server.url}/simple")
        done = ran("node", *words, timeout=240)
    assert done.stdout.splitlines() == [
        VERSION,
        "",
        "Bytes to text, a chunk at a time.",
        "(data: bytes, *, sha256: str | None = None) -> 'Vocabulary'",
    ], done.stderr
    assert server.asked == ["/simple/detok-py/", f"/{small.name}"]


def test_a_server_without_the_page_or_with_another_version_of_it_says_what_to_install(
    core, tmp_path
):
    with zipfile.ZipFile(core) as archive:
        archive.extractall(tmp_path)

    def serve():
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
        words = ("-m", "detok_py", "serve", "--port", "0")
        done = ran(sys.executable, *words, cwd=tmp_path, env=environment)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    assert serve() == (
        "detok: detok serve needs the package 'detok_py_page', which is not installed: "
        "pip install 'detok_py[serve]'.\n"
    )
    (tmp_path / "detok_py_page").mkdir()
    (tmp_path / "detok_py_page" / "__init__.py").write_text('__version__ = "0.0.9"')
    assert serve() == (
        f"detok: detok_py is {VERSION} and detok_py_page 0.0.9; install one version of both: "
        f"pip install 'detok_py[serve]=={VERSION}'.\n"
    )
