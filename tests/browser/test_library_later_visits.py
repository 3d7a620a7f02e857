"""A later visit: Pyodide begins with the memory that the first visit kept, and with nothing that is
not that memory.
"""

import _imp
import json
import struct
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest
from library_rig import URL, scripted

RUNTIME = Path(__file__).resolve().parents[2] / ".build" / "runtime"

pytestmark = pytest.mark.one_browser

# Python booted in the page itself, as the library's worker boots it. The hash of a text is another
# in each Python that has started anew.
KIT = """async () => {
  const { bootPython } = await import("/src/boot-pyodide.js");
  window.visit = async (cache = "detok", installer = undefined) => {
    const { interpreter, streams } = await bootPython(location.origin + "/runtime/", () => {}, { cache, installer });
    window.interpreter = interpreter;
    const options = '{"stop": ["STOP"]}';
    const [[state]] = JSON.parse(streams.begin_steps(options));
    const steps = JSON.parse(streams.walk(options, state, '', '["€ S", "T", "!"]')).map(([deltas]) => deltas);
    return {
      seed: interpreter.runPython("hash('é')"),
      steps: steps.map((deltas) => deltas.map(([, text]) => text).join("")),
      run: interpreter.runPython("import detok_py.protocol.events; detok_py.protocol.events.new_run_id()"),
      lazy: interpreter.runPython("import detok_py.tokenizers; detok_py.tokenizers.load_tokenizer is not None"),
    };
  };
  window.kept = async (cache = "detok") => {
    const store = await caches.open(cache), found = [];
    for (const { url } of await store.keys()) found.push([url, (await (await store.match(url))?.arrayBuffer())?.byteLength]);
    return found;
  };
  window.keeping = async () => {
    await until(async () => (await kept()).length);
    return kept();
  };
  // Like a memory of Pyodide: a head that says how long it is, and the heap.
  window.snapshot = async (size) => {
    const { MemorySnapshot } = await import("/src/memory-snapshot.js");
    const memory = new Uint8Array(64 + size);
    new Uint32Array(memory.buffer).set([7, 64, 9]);
    for (let at = 200_000; at < size; at += 100_000) memory[64 + at] = at % 251;
    return [await MemorySnapshot.of("detok", "/runtime/"), memory];
  };
}"""
STEPS = ["€ ", "", "ST!"]


@pytest.fixture
def page(open_library):
    page = open_library()
    page.evaluate(KIT)
    yield page
    page.context.close()


def test_a_later_visit_begins_with_the_memory_of_the_first_one(page):
    first, found, later, third = page.evaluate(
        "async () => [await visit(), await keeping(), await visit(), await visit()]"
    )
    assert first["steps"] == later["steps"] == third["steps"] == STEPS
    assert first["seed"] == later["seed"] == third["seed"]
    # Modules that were not imported by then can be imported as well.
    assert first["lazy"] and later["lazy"]
    # Random values differ from visit to visit: a run's id is the key to its text.
    assert len({visit["run"] for visit in (first, later, third)}) == 3
    ((url, size),) = found
    assert url.endswith("/runtime/memory")
    assert 4 << 20 < size < 16 << 20
    assert page.complaints == []


@pytest.mark.full
def test_a_detok_py_that_micropip_installed_is_kept_as_well(page):
    asked = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    visit = "() => visit('detok', location.origin + '/src/micropip.js')"
    first = page.evaluate(visit)
    ((url, size),) = page.evaluate("() => keeping()")
    assert {"memory.bin", "detok_bytecode.bin", "python_stdlib.zip"} <= set(asked)
    asked.clear()
    later = page.evaluate(visit)
    assert first["steps"] == later["steps"] == STEPS
    assert first["seed"] == later["seed"]
    assert first["lazy"] and later["lazy"]
    assert url.endswith("/runtime/full/memory")
    assert 4 << 20 < size < 24 << 20
    # The modules in the memory are not read again. The standard library is, once a module is
    # missing.
    assert not {"memory.bin", "detok_bytecode.bin", "python_stdlib.zip"} & set(asked)
    found = "() => interpreter.runPython('import colorsys; colorsys.rgb_to_hls(1, 1, 1)[1]')"
    assert page.evaluate(found) == 1
    assert asked.count("python_stdlib.zip") == 1
    assert page.complaints == []


def test_micropip_is_in_the_memory_of_a_pyodide_that_has_started():
    assert b"micropip.package_manager" in (RUNTIME / "memory.bin").read_bytes()


def test_the_bytecode_beside_the_wheel_is_of_its_modules():
    (wheel,) = RUNTIME.glob("detok_py-*-any.whl")
    head, _, codes = (RUNTIME / "detok_bytecode.bin").read_bytes().partition(b"\n")
    with ZipFile(wheel) as files:
        sources = {name: files.read(name) for name in files.namelist() if name.endswith(".py")}
    names = set()
    for name, size in json.loads(head):
        folder, _, file = name.partition("__pycache__/")
        names.add(source := f"{folder}{file.split('.')[0]}.py")
        # PEP 552: the magic number, flags (by hash, which is to be compared), the source's hash.
        magic, flags, found = struct.unpack("<II8s", codes[:16])
        assert flags == 0b11
        assert found == _imp.source_hash(magic, sources[source])
        codes = codes[size:]
    assert names == set(sources)


# Sent in place of the memory that a runtime may have of a Pyodide that has started: nothing, what
# is no memory, and a memory of nothing, whose sum is right.
NO_MEMORIES = {
    "none": None,
    "a page": b"<!doctype html>",
    "empty": sha256(bytes(8)).digest() + bytes(8),
}


@pytest.mark.full
@pytest.mark.parametrize("sent", NO_MEMORIES.values(), ids=NO_MEMORIES)
def test_a_first_visit_starts_by_itself_where_the_runtimes_memory_is_of_no_use(page, sent):
    asked = []

    def answer(route):
        asked.append(route.request.url)
        route.fulfill(status=404 if sent is None else 200, body=sent or b"")

    page.route("**/runtime/memory.bin", answer)
    seen = page.evaluate("() => visit(false, location.origin + '/src/micropip.js')")
    assert len(asked) == 1
    assert seen["steps"] == STEPS
    assert seen["lazy"]


@pytest.mark.full
def test_where_nothing_may_be_kept_each_visit_is_a_first_one(page):
    first, later, found = page.evaluate(
        "async () => [await visit(false), await visit(false), await kept()]"
    )
    assert first["steps"] == later["steps"] == STEPS
    assert first["seed"] != later["seed"]
    assert found == []


# Some of its pages are all zero, or all of them.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [655_360, 65_536])
def test_a_memory_comes_back_as_it_was_without_its_empty_pages(page, size):
    seen = page.evaluate(
        """async (size) => {
          const { unpackMemory, PAGE } = await import("/src/memory-snapshot.js");
          const [snapshot, memory] = await window.snapshot(size);
          const nothing = await snapshot.recall();
          await snapshot.remember(memory.slice(), '4567');
          const head = new Uint8Array(PAGE), heap = new Uint8Array(size + PAGE);
          heap.fill(1, 0, PAGE / 2 * (size > PAGE)); // what a Python that starts has there
          unpackMemory(await (await snapshot.recall()).memory, head, heap);
          const [[, packed]] = await kept();
          return [
            nothing ?? null,
            heap.every((byte, at) => byte === (memory[64 + at] ?? 0)),
            [...new Uint32Array(head.buffer, 0, 4)],
            packed,
          ];
        }""",
        size,
    )
    assert seen[:3] == [None, True, [7, 65_536, 9, 0]]
    assert seen[3] < 65_536 + max(size, 1000)


DAMAGES = {
    "flipped": "bytes.map((byte, at) => (at === 70_000 ? byte ^ 1 : byte))",
    "its sum": "bytes.map((byte, at) => (at === 3 ? byte ^ 1 : byte))",
    "its count of pages": "bytes.map((byte, at) => (at === 33 ? byte ^ 1 : byte))",
    "truncated": "bytes.slice(0, 70_000)",
    "the head alone": "bytes.slice(0, 34)",
    "longer": "new Blob([bytes, 'x'])",
    "empty": "''",
    "a page": "'<!doctype html><p>Sign in'",
}


def test_a_memory_that_is_damaged_does_not_come_back(page):
    seen = page.evaluate(
        "async () => { const damages = {"
        + ",".join(f'"{name}": (bytes) => {change}' for name, change in DAMAGES.items())
        + "};"
        """
          const [snapshot, memory] = await window.snapshot(655_360), seen = {};
          for (const [name, change] of Object.entries(damages)) {
            await snapshot.remember(memory.slice(), '4567');
            const bytes = new Uint8Array(await (await snapshot.store.match(snapshot.url)).arrayBuffer());
            await snapshot.store.put(snapshot.url, new Response(change(bytes)));
            seen[name] = (await outcome((await snapshot.recall()).memory)).startsWith("Error: ");
          }
          return seen;
        }"""
    )
    assert seen == dict.fromkeys(DAMAGES, True)


OLD = {
    "damaged": "bytes[5_000_000] ^= 1;",
    # As it was packed, but by another build: the build's name is in the first page, and the sum is
    # right.
    "of another Pyodide": """
      const pages = new DataView(bytes.buffer).getUint32(32, true);
      bytes[32 + 4 * (1 + pages) + 20] ^= 1;
      bytes.set(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes.subarray(32))));""",
}


@pytest.mark.full
@pytest.mark.parametrize("old", OLD)
def test_a_visit_that_finds_a_memory_of_no_use_is_a_first_one_and_replaces_it(page, old):
    first, found, second, third = page.evaluate(
        "async () => { const change = async (bytes) => {" + OLD[old] + "return bytes; };"
        """
          const first = await visit(), [[url]] = await keeping(), store = await caches.open("detok");
          const body = async () => new Uint8Array(await (await store.match(url))?.arrayBuffer() ?? []);
          const changed = await change(await body());
          const { headers } = await store.match(url);
          await store.put(url, new Response(changed, { headers }));
          const second = await visit();
          await until(async () => String((await body()).subarray(0, 32)) !== String(changed.subarray(0, 32)));
          return [first, await keeping(), second, await visit()];
        }"""
    )
    assert first["steps"] == second["steps"] == third["steps"] == STEPS
    assert first["seed"] != second["seed"] == third["seed"]
    assert len(found) == 1
    assert [text for text in page.complaints if "pageerror" in text] == []


def test_a_memory_of_another_version_goes_when_this_one_is_kept(page):
    found = page.evaluate(
        """async () => {
          const store = await caches.open("detok");
          await store.put("/runtime/memory?0123", new Response("of last week"));
          await store.put("/elsewhere/memory?0123", new Response("stays"));
          await store.put("/vocabulary/of-somebody.detok", new Response("stays"));
          const [snapshot, memory] = await window.snapshot(655_360);
          await snapshot.remember(memory, '4567');
          return kept();
        }"""
    )
    left = sorted(url.split("/", 3)[3].partition("?")[0] for url, _ in found)
    assert left == ["elsewhere/memory", "runtime/memory", "vocabulary/of-somebody.detok"]


LACKS = {
    "no Cache Storage": "Object.defineProperty(window, 'caches', { value: undefined })",
    "no sums": "Object.defineProperty(crypto, 'subtle', { value: undefined })",
    "one that refuses": "CacheStorage.prototype.open = () => Promise.reject(new DOMException('no', 'SecurityError'))",
    "one that cannot be read": "Cache.prototype.match = () => Promise.reject(new DOMException('no', 'UnknownError'))",
    "no room": "Cache.prototype.put = () => Promise.reject(new DOMException('full', 'QuotaExceededError'))",
}


@pytest.mark.full
@pytest.mark.parametrize(
    "lack",
    [lack if lack == "no room" else pytest.param(lack, marks=pytest.mark.soak) for lack in LACKS],
)
def test_where_nothing_can_be_kept_python_starts_all_the_same(page, lack):
    assert page.evaluate(f"async () => {{ {LACKS[lack]}; return (await visit()).steps; }}") == STEPS
    assert page.complaints == []


@pytest.mark.full
def test_the_librarys_worker_decodes_bytes_ids_and_answers_in_a_memory_that_was_kept(page):
    text = "naïve 👩‍🚀 你好"
    seen = page.evaluate(
        """async ([url, request]) => {
          const options = { runtime: "pyodide", cache: "the page's own" };
          const memories = async () => (await kept(options.cache)).filter(([url]) => url.includes("memory")).length;
          const run = async () => {
            const { python } = await lib.warmUp(options);
            const vocabulary = await lib.loadVocabulary(url, options);
            const bytes = await partsOf(sourceOf(bytesOf("é👩‍🚀")).pipeThrough(new lib.DetokStream(options)));
            const ids = await partsOf(sourceOf([[65, 66, 67, 68]]).pipeThrough(new lib.DetokStream({ ...options, vocabulary })));
            const answer = await partsOf(lib.connect("/stream", { ...options, ...request }).text);
            await until(memories);
            lib.shutDown();
            return [python, bytes, ids.join(""), answer.join("")];
          };
          return [await run(), await run(), await memories()];
        }""",
        [URL, {"prompt": "", **scripted(text, cut="token", pace=2000)}],
    )
    first, later, memories = seen
    assert first == later
    assert first[1] == ["é", "👩", "\u200d", "🚀"]
    assert first[3] == text
    assert memories == 1
    assert page.complaints == []
