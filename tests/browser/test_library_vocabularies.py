"""loadVocabulary in a page: fetched once, kept, checked, refused when it is not what it says; and
tokenizer files of a user's own.
"""

import contextlib
import json
import threading

import pytest
from small_tokenizers import byte_level, gguf, gpt2_values, llama_values, rank_file

import detok_py as d

pytestmark = pytest.mark.one_browser

VOCABULARY = d.Vocabulary.from_bytes(
    [bytes([b]) for b in range(256)]
    + [b"caf\xc3", b"\xa9s"]
    + [b"filler %d" % n for n in range(3000)]
)
PACKED = VOCABULARY.pack()

# The text of these ids with a vocabulary from `source`: a URL, or bytes in hex that are a file of
# that name.
LOAD = """async ([source, name, ids, options]) => {
  const given = name === null ? source : name ? new File([fromHex(source)], name) : new Blob([fromHex(source)]);
  const progress = [];
  const onProgress = ({ loaded, total }) => progress.push([loaded, total]);
  const vocabulary = await lib.loadVocabulary(given, { runtime: "micropython", onProgress, ...options });
  const text = (await partsOf(sourceOf([ids]).pipeThrough(new lib.DetokStream({ runtime: "micropython", vocabulary })))).join("");
  return { text, sha256: vocabulary.sha256, size: vocabulary.size, frozen: Object.isFrozen(vocabulary), progress };
}"""
FAIL = """async ([source, options]) => {
  const given = /[/]/.test(source) ? source : new Blob([fromHex(source)]);
  const error = await outcome(lib.loadVocabulary(given, { runtime: "micropython", ...options }).catch((error) => ({ error })));
  if (!error.error) return "loaded";
  const { name, message, code, kind, isRetryable } = error.error;
  return { name, message, code: code ?? null, kind, isRetryable };
}"""


def load(page, source, ids=(256, 257), name=None, **options):
    """Return what LOAD says of a vocabulary, and its text of these ids."""
    return page.evaluate(LOAD, [source, name, ids, options])


def fail(page, source, **options):
    """Return the error of a vocabulary, of a URL or of bytes in hex, that cannot be loaded."""
    return page.evaluate(FAIL, [source, options])


@contextlib.contextmanager
def replaced(page, place, name, value):
    """Give a property of an object of the page another value while a block runs."""
    page.evaluate(
        f"""() => {{
          const own = Object.getOwnPropertyDescriptor({place}, "{name}");
          window.giveBack = () => own ? Object.defineProperty({place}, "{name}", own) : delete {place}["{name}"];
          Object.defineProperty({place}, "{name}", {{ value: {value}, configurable: true }});
        }}"""
    )
    try:
        yield
    finally:
        page.evaluate("() => void giveBack()")


@pytest.fixture
def address(served, request):
    """A URL of the test's own, where the packed vocabulary is."""
    name = f"{abs(hash(request.node.nodeid))}.detok"
    served.given[name] = (200, {}, PACKED)
    return f"/given/{name}"


def times_asked(served, address):
    return served.asked.count(address.removeprefix("/given/"))


def test_one_whose_sum_is_known_is_fetched_once_and_then_asks_for_nothing(
    either_page, served, address
):
    either_page.evaluate("() => caches.delete('detok')")
    before, asked = times_asked(served, address), len(served.asked)
    for _ in range(3):
        loaded = load(either_page, address, sha256=VOCABULARY.sha256)
        assert (loaded["text"], loaded["sha256"]) == ("cafés", VOCABULARY.sha256)
        assert (loaded["size"], loaded["frozen"]) == (len(VOCABULARY), True)
    assert (times_asked(served, address) - before, len(served.asked) - asked) == (1, 1)
    kept = "async () => (await (await caches.open('detok')).keys()).length"
    assert either_page.evaluate(kept) == 1


@pytest.mark.parametrize("header", ["etag", "last-modified"])
def test_one_whose_sum_is_not_known_is_the_servers_newest(library, served, address, header):
    """Ids read with last week's table would be fluent nonsense."""
    versions = {
        "etag": ('"1"', '"2"'),
        "last-modified": ("Sat, 01 Nov 2025 00:00:00 GMT", "Sun, 02 Nov 2025 00:00:00 GMT"),
    }[header]
    name = address.removeprefix("/given/")
    served.given[name] = (200, {header: versions[0]}, PACKED)
    for _ in range(3):
        assert load(library, address, [0, 257])["text"] == "\x00\ufffds"
    assert times_asked(served, address) == 3  # conditionally, without the file the second time
    assert not [asked for asked in served.asked if asked == f"HEAD {name}"]
    newer = d.Vocabulary.from_bytes([b"new"])
    served.given[name] = (200, {header: versions[1]}, newer.pack())
    assert load(library, address, [0])["text"] == "new"
    # A server that cannot be asked leaves what was kept.
    offline = "() => Promise.reject(new TypeError('offline'))"
    with replaced(library, "window", "fetch", offline):
        assert load(library, address, [0])["text"] == "new"
    # A server that tells its versions not apart is asked for the whole each time.
    served.given[name] = (200, {}, PACKED)
    before = times_asked(served, address)
    for _ in range(2):
        assert load(library, address)["sha256"] == VOCABULARY.sha256
    assert times_asked(served, address) - before == 2


def test_progress_counts_up_to_the_whole(library, address):
    progress = load(library, address, [], cache=False)["progress"]
    assert progress[-1] == [len(PACKED), len(PACKED)]
    assert [loaded for loaded, _ in progress] == sorted({loaded for loaded, _ in progress})


def test_without_a_cache_it_is_fetched_each_time(library, served, address):
    for _ in range(2):
        assert load(library, address, cache=False)["text"] == "cafés"
    assert times_asked(served, address) == 2


def test_a_cache_of_another_name_is_another_cache(library, served, address):
    for name in ("one", "two", "one"):
        load(library, address, [], cache=name, sha256=VOCABULARY.sha256)
    assert times_asked(served, address) == 2
    delete = "async () => [await caches.delete('one'), await caches.delete('two')]"
    assert library.evaluate(delete) == [True, True]


REFUSES = "{ open: () => Promise.reject(new DOMException('no', 'SecurityError')) }"
FULL = "() => Promise.reject(new DOMException('full', 'QuotaExceededError'))"


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        pytest.param("window", "caches", "undefined", id="no Cache Storage"),
        pytest.param("window", "caches", REFUSES, id="one that refuses"),
        pytest.param("Cache.prototype", "put", FULL, id="a full disk"),
    ],
)
def test_where_nothing_can_be_kept_it_loads_all_the_same(library, address, place, name, value):
    with replaced(library, place, name, value):
        assert load(library, address)["text"] == "cafés"


@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty", "a page"])
def test_a_damaged_entry_of_the_cache_is_fetched_again(library, served, address, damage):
    load(library, address, [])
    library.evaluate(
        """async ([address, damage]) => {
          const store = await caches.open("detok");
          const bytes = new Uint8Array(await (await store.match(address)).arrayBuffer());
          const flipped = bytes.map((byte, n) => (n === 1000 ? byte ^ 1 : byte));
          const body = { flipped, truncated: bytes.slice(0, 1000), empty: "", "a page": "<!doctype html><p>Sign in" }[damage];
          await store.put(address, new Response(body));
        }""",
        [address, damage],
    )
    for _ in range(2):
        assert load(library, address, sha256=VOCABULARY.sha256)["text"] == "cafés"
        assert times_asked(served, address) == 2


LIES = {
    "truncated": PACKED[:1000],
    "flipped": PACKED[:1000] + bytes([PACKED[1000] ^ 1]) + PACKED[1001:],
    "longer": PACKED + b"\x00",
    "another": d.Vocabulary.from_bytes([b"x"]).pack(),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_address_with_a_sum_answers_for_what_it_serves(library, served, lie):
    name = f"{VOCABULARY.sha256}.detok"
    served.given[name] = (200, {}, LIES[lie])
    assert fail(library, f"/given/{name}")["name"] == "DetokError"
    # What was refused is not kept either: once the server is right again, so is the page.
    served.given[name] = (200, {}, PACKED)
    assert load(library, f"/given/{name}")["text"] == "cafés"
    library.evaluate("() => caches.delete('detok')")


def test_the_sum_that_is_asked_for_decides(library, address):
    other = "0" * 64
    failed = fail(library, address, sha256=other, cache=False)
    assert (failed["name"], failed["code"], failed["kind"]) == ("DetokError", 4409, "data")
    assert VOCABULARY.sha256[:12] in failed["message"] and other[:12] in failed["message"]
    assert fail(library, PACKED.hex(), sha256=other)["code"] == 4409
    assert load(library, PACKED.hex(), name="", sha256=VOCABULARY.sha256)["text"] == "cafés"


def test_where_the_browser_computes_no_sums_python_does(library):
    with replaced(library, "crypto", "subtle", "undefined"):
        loaded = load(library, PACKED.hex(), name="", cache=False)
    assert (loaded["text"], loaded["sha256"]) == ("cafés", VOCABULARY.sha256)


def test_what_is_no_vocabulary_is_named_with_the_way_out(library, served):
    """Each by its kind, by whether asking again may help, and by words of its sentence."""
    page = b"<!doctype html><title>Not found</title>"
    served.given |= {"page.json": (200, {"content-type": "text/html"}, page)}
    served.given |= {"busy.detok": (503, {}, b""), "other.detok": (200, {}, b"other\x07")}
    said = {
        "/given/page.json": ["data", False, "is a page and not a vocabulary"],
        "/given/none.detok": ["network", False, "/given/none.detok could not be read (HTTP 404)"],
        "/given/busy.detok": ["network", True, "/given/busy.detok could not be read (HTTP 503)"],
        "/given/other.detok": ["data", False, 'it begins with "other" 07, not "detok" 02'],
        # This page's policy forbids another host, so nothing leaves the machine, and the browser
        # says no more than that it failed.
        "http://localhost:9/x.detok": ["network", True, ""],
    }
    for address, (kind, again, words) in said.items():
        failed = fail(library, address, cache=False)
        assert failed["name"] == "DetokError"
        assert (failed["kind"], failed["isRetryable"]) == (kind, again), address
        assert words in failed["message"]


def test_a_server_that_stalls_is_given_up(library, served):
    served.gates["stalled.detok"] = threading.Event()
    try:
        failed = fail(library, "/given/stalled.detok", timeout=300)
    finally:
        served.gates.pop("stalled.detok").set()
    assert (failed["kind"], failed["isRetryable"]) == ("network", True)
    assert "nothing came for 0.3 s" in failed["message"]


@pytest.mark.parametrize("when", ["before", "while it comes"])
def test_an_abort_rejects_with_its_reason_and_keeps_nothing(library, served, address, when):
    seen = library.evaluate(
        """async ([address, when]) => {
          const stop = new AbortController();
          const why = new DOMException("enough", "AbortError");
          if (when === "before") stop.abort(why);
          const loading = lib.loadVocabulary(address, { runtime: "micropython", signal: stop.signal, onProgress: () => stop.abort(why) });
          const failed = await outcome(loading);
          return [failed, Boolean(await (await caches.open("detok")).match(address))];
        }""",
        [address, when],
    )
    assert seen == ["AbortError: enough", False]


def test_a_vocabulary_that_names_another_one_is_an_error_and_not_another_text(library):
    """A page may make such an object itself; what its bytes are is found out before an id is read
    with them.
    """
    seen = library.evaluate(
        """async (hex) => {
          const vocabulary = { sha256: "0".repeat(64), size: 3, bytes: fromHex(hex) };
          const stream = new lib.DetokStream({ runtime: "micropython", vocabulary });
          const failed = await outcome(partsOf(sourceOf([[104]]).pipeThrough(stream)));
          return [failed, (await stream.finished).reason, await openStreams()];
        }""",
        PACKED.hex(),
    )
    assert seen[0].startswith("DetokError: ")
    assert seen[1:] == ["error", 0]


# ---------------------------------------------------------------- a user's own files


# One of each way in which a file is known; that each format is read rightly is tested in Pyodide,
# without a page.
FILES = [
    pytest.param("tokenizer.json", json.dumps(byte_level()).encode(), id="tokenizer.json"),
    pytest.param("cl100k_base.tiktoken", rank_file(), id="cl100k_base.tiktoken"),
    pytest.param("", gguf(llama_values()), id="no name"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "data"), FILES)
def test_a_users_own_tokenizer_is_packed_and_decodes(library, tmp_path, name, data):
    file = tmp_path / (name or "model.gguf")
    file.write_bytes(data)
    tokenizer = d.load_tokenizer(file)
    ids = tokenizer.encode("the cat s")
    loaded = load(library, data.hex(), ids, name)
    assert loaded["sha256"] == tokenizer.vocabulary.sha256
    assert loaded["text"] == tokenizer.decode(ids)


@pytest.mark.full
def test_of_a_model_file_only_the_header_is_read(library):
    """A model is many gigabytes: it is never in memory, in the page or in Python."""
    head = gguf(gpt2_values())
    loaded = library.evaluate(
        """async ([head, name]) => {
          const tensors = new Uint8Array(1 << 25);
          const file = new File([fromHex(head), tensors, tensors, tensors, tensors], name);
          let read = 0;
          const own = ["arrayBuffer", "text"].map((method) => {
            const is = Blob.prototype[method];
            Blob.prototype[method] = function () { read = Math.max(read, this.size); return is.call(this); };
            return () => void (Blob.prototype[method] = is);
          });
          const vocabulary = await lib.loadVocabulary(file, { runtime: "micropython" });
          for (const restore of own) restore();
          return [vocabulary.size, read];
        }""",
        [head.hex(), "../model one.gguf"],
    )
    assert loaded == [len(gpt2_values()["tokenizer.ggml.tokens"][1][1]), 5]


def test_a_file_that_is_no_tokenizer_says_what_it_is(library):
    failed = fail(library, b"PK\x03\x04 a zip".hex())
    assert failed["name"] == "DetokError"
    assert "PK" in failed["message"]
