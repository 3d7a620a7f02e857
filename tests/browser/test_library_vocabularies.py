"""loadVocabulary in a page: fetched once, kept, checked, refused when it is not what it says; and
tokenizer files of a user's own.
"""

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
  const given = typeof source === "string" && !source.startsWith("/") ? new Blob([fromHex(source)]) : source;
  const error = await outcome(lib.loadVocabulary(given, { runtime: "micropython", ...options }).catch((error) => ({ error })));
  if (!error.error) return "loaded";
  const { name, message, code, kind, isRetryable } = error.error;
  return { name, message, code: code ?? null, kind, isRetryable };
}"""


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
        loaded = either_page.evaluate(
            LOAD, [address, None, [256, 257], {"sha256": VOCABULARY.sha256}]
        )
        assert (loaded["text"], loaded["sha256"], loaded["size"]) == (
            "cafés",
            VOCABULARY.sha256,
            len(VOCABULARY),
        )
        assert loaded["frozen"]
    assert (times_asked(served, address) - before, len(served.asked) - asked) == (1, 1)
    assert (
        either_page.evaluate("async () => (await (await caches.open('detok')).keys()).length") == 1
    )


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
        assert library.evaluate(LOAD, [address, None, [0, 257], {}])["text"] == "\x00\ufffds"
    assert times_asked(served, address) == 3  # conditionally, without the file the second time
    assert not [asked for asked in served.asked if asked == f"HEAD {name}"]
    newer = d.Vocabulary.from_bytes([b"new"])
    served.given[name] = (200, {header: versions[1]}, newer.pack())
    assert library.evaluate(LOAD, [address, None, [0], {}])["text"] == "new"
    # A server that cannot be asked leaves what was kept.
    library.evaluate(
        "() => { window.ask = fetch; window.fetch = () => Promise.reject(new TypeError('offline')); }"
    )
    try:
        assert library.evaluate(LOAD, [address, None, [0], {}])["text"] == "new"
    finally:
        library.evaluate("() => { window.fetch = ask; }")
    # A server that tells its versions not apart is asked for the whole each time.
    served.given[name] = (200, {}, PACKED)
    before = times_asked(served, address)
    for _ in range(2):
        assert (
            library.evaluate(LOAD, [address, None, [256, 257], {}])["sha256"] == VOCABULARY.sha256
        )
    assert times_asked(served, address) - before == 2


def test_progress_counts_up_to_the_whole(library, address):
    progress = library.evaluate(LOAD, [address, None, [], {"cache": False}])["progress"]
    assert progress[-1] == [len(PACKED), len(PACKED)]
    assert [loaded for loaded, _ in progress] == sorted({loaded for loaded, _ in progress})


def test_without_a_cache_it_is_fetched_each_time(library, served, address):
    for _ in range(2):
        assert (
            library.evaluate(LOAD, [address, None, [256, 257], {"cache": False}])["text"] == "cafés"
        )
    assert times_asked(served, address) == 2


def test_a_cache_of_another_name_is_another_cache(library, served, address):
    for name in ("one", "two", "one"):
        library.evaluate(LOAD, [address, None, [], {"cache": name, "sha256": VOCABULARY.sha256}])
    assert times_asked(served, address) == 2
    assert library.evaluate(
        "async () => [await caches.delete('one'), await caches.delete('two')]"
    ) == [True, True]


@pytest.mark.parametrize("where", ["absent", "refuses"])
def test_where_there_is_no_cache_storage_it_loads_all_the_same(library, served, address, where):
    library.evaluate(
        """(where) => {
          window.kept = caches;
          const value = where === "absent" ? undefined : { open: () => Promise.reject(new DOMException("no", "SecurityError")) };
          Object.defineProperty(window, "caches", { value, configurable: true });
        }""",
        where,
    )
    try:
        assert library.evaluate(LOAD, [address, None, [256, 257], {}])["text"] == "cafés"
    finally:
        library.evaluate(
            "() => { Object.defineProperty(window, 'caches', { value: kept, configurable: true }); }"
        )


def test_a_full_disk_is_no_reason_to_fail(library, address):
    library.evaluate(
        """() => {
          window.kept = Cache.prototype.put;
          Cache.prototype.put = () => Promise.reject(new DOMException("full", "QuotaExceededError"));
        }"""
    )
    try:
        assert (
            library.evaluate(LOAD, [address, None, [256, 257], {"cache": "full"}])["text"]
            == "cafés"
        )
    finally:
        library.evaluate("() => { Cache.prototype.put = kept; return caches.delete('full'); }")


@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty", "a page"])
def test_a_damaged_entry_of_the_cache_is_fetched_again(library, served, address, damage):
    library.evaluate(LOAD, [address, None, [], {}])
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
    sha256 = {"sha256": VOCABULARY.sha256}
    assert library.evaluate(LOAD, [address, None, [256, 257], sha256])["text"] == "cafés"
    assert times_asked(served, address) == 2
    assert library.evaluate(LOAD, [address, None, [256, 257], sha256])["text"] == "cafés"
    assert times_asked(served, address) == 2


LIES = {
    "truncated": PACKED[:1000],
    "flipped": PACKED[:1000] + bytes([PACKED[1000] ^ 1]) + PACKED[1001:],
    "longer": PACKED + b"\x00",
    "another": d.Vocabulary.from_bytes([b"x"]).pack(),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_address_with_a_sum_answers_for_what_it_serves(library, served, lie):
    served.given[f"{VOCABULARY.sha256}.detok"] = (200, {}, LIES[lie])
    failed = library.evaluate(FAIL, [f"/given/{VOCABULARY.sha256}.detok", {}])
    assert failed["name"] == "DetokError"
    # What was refused is not kept either: once the server is right again, so is the page.
    served.given[f"{VOCABULARY.sha256}.detok"] = (200, {}, PACKED)
    assert (
        library.evaluate(LOAD, [f"/given/{VOCABULARY.sha256}.detok", None, [256, 257], {}])["text"]
        == "cafés"
    )
    library.evaluate("() => caches.delete('detok')")


def test_the_sum_that_is_asked_for_decides(library, address):
    other = "0" * 64
    failed = library.evaluate(FAIL, [address, {"sha256": other, "cache": False}])
    assert (failed["name"], failed["code"], failed["kind"]) == ("DetokError", 4409, "data")
    assert VOCABULARY.sha256[:12] in failed["message"] and other[:12] in failed["message"]
    failed = library.evaluate(FAIL, [PACKED.hex(), {"sha256": other}])
    assert failed["code"] == 4409
    assert (
        library.evaluate(LOAD, [PACKED.hex(), "", [256, 257], {"sha256": VOCABULARY.sha256}])[
            "text"
        ]
        == "cafés"
    )


def test_where_the_browser_computes_no_sums_python_does(library):
    library.evaluate(
        "() => void Object.defineProperty(crypto, 'subtle', { value: undefined, configurable: true })"
    )
    try:
        loaded = library.evaluate(LOAD, [PACKED.hex(), "", [256, 257], {"cache": False}])
    finally:
        assert library.evaluate("() => delete crypto.subtle && !!crypto.subtle")
    assert (loaded["text"], loaded["sha256"]) == ("cafés", VOCABULARY.sha256)


def test_what_cannot_be_fetched_is_said_with_its_address(library, served):
    failed = library.evaluate(FAIL, ["/given/nothing.detok", {}])
    assert failed["name"] == "DetokError"
    assert "/given/nothing.detok" in failed["message"] and "HTTP 404" in failed["message"]
    # This page's policy forbids another host, so nothing leaves the machine, and the browser says
    # no more than that it failed.
    failed = library.evaluate(
        "() => lib.loadVocabulary('http://localhost:9/x.detok').catch(({ name, isRetryable }) => [name, isRetryable])"
    )
    assert failed == ["DetokError", True]


def test_what_is_no_vocabulary_is_named_with_the_way_out(library, served):
    """Each by its kind, by whether asking again may help, and by words of its sentence."""
    page = b"<!doctype html><title>Not found</title>"
    served.given |= {"page.json": (200, {"content-type": "text/html"}, page)}
    served.given |= {"busy.detok": (503, {}, b""), "other.detok": (200, {}, b"other\x07")}
    said = {
        "page.json": ["data", False, "is a page and not a vocabulary"],
        "none.detok": ["network", False, "HTTP 404"],
        "busy.detok": ["network", True, "HTTP 503"],
        "other.detok": ["data", False, 'it begins with "other" 07, not "detok" 02'],
    }
    for name, (kind, again, words) in said.items():
        failed = library.evaluate(FAIL, [f"/given/{name}", {"cache": False}])
        assert (failed["kind"], failed["isRetryable"]) == (kind, again), name
        assert words in failed["message"]


def test_a_server_that_stalls_is_given_up(library, served):
    served.gates["stalled.detok"] = threading.Event()
    try:
        failed = library.evaluate(FAIL, ["/given/stalled.detok", {"timeout": 300}])
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


def files():
    """One of each way in which a file is known; that each format is read rightly is tested in
    Pyodide, without a page.
    """
    yield "tokenizer.json", json.dumps(byte_level()).encode()
    yield "cl100k_base.tiktoken", rank_file()
    yield "", gguf(llama_values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "data"), [pytest.param(name, data, id=name or "no name") for name, data in files()]
)
def test_a_users_own_tokenizer_is_packed_and_decodes(library, tmp_path, name, data):
    file = tmp_path / (name or "model.gguf")
    file.write_bytes(data)
    tokenizer = d.load_tokenizer(file)
    ids = tokenizer.encode("the cat s")
    loaded = library.evaluate(LOAD, [data.hex(), name, ids, {}])
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
    failed = library.evaluate(FAIL, [b"PK\x03\x04 a zip".hex(), {}])
    assert failed["name"] == "DetokError"
    assert "PK" in failed["message"]
