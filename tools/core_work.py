"""Everything that a page does with detok_py in Pyodide, once: what this imports is what
python_core.zip holds (build_core.mjs).

Runs inside Pyodide. Every module of the core is imported; bytes, ids, texts and failures go through
it; values cross to JavaScript and back; an exception is raised to JavaScript, because Pyodide
formats its traceback in Python.
"""

import importlib
import json
import pkgutil

import detok_py

for module in pkgutil.walk_packages(detok_py.__path__, "detok_py."):
    importlib.import_module(module.name)

stream = detok_py.StreamingDetokenizer()
assert stream.feed("é…".encode()[:-1]) + stream.flush() == "é\ufffd"
for errors in ("ignore", "backslashreplace"):
    detok_py.StreamingDetokenizer(errors).feed(b"\xff")

vocabulary = detok_py.Vocabulary.from_pieces(["ĠHello", "Ã", "©"], {"type": "ByteLevel"})
vocabulary = detok_py.Vocabulary.unpack(vocabulary.pack())
assert len(vocabulary.sha256) == 64
assert detok_py.Detokenizer(vocabulary).feed([0, 1, 2]) == " Helloé"

chat = detok_py.ChatStream(detok_py.StreamingDetokenizer(), stop=["STOP"])
assert [delta.text for delta in chat.feed(b"<think>a</think>b STOP") + chat.flush()]

tokenizer = {
    "version": "1.0",
    "added_tokens": [],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    },
    "post_processor": None,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
}
with open("tokenizer.json", "w") as file:
    json.dump(tokenizer, file)
loaded_tokenizer = detok_py.load_tokenizer("tokenizer.json")
assert loaded_tokenizer.decode(loaded_tokenizer.encode("abab")) == "abab"
assert loaded_tokenizer.encode("aé") == [0]  # letters beyond ASCII need encodings of their own

try:
    detok_py.Detokenizer(vocabulary).push(10**6)
except detok_py.VocabularyError:
    pass

from js import Uint8Array  # noqa: E402
from pyodide.code import run_js  # noqa: E402
from pyodide.ffi import create_proxy, to_js  # noqa: E402

numbers = Uint8Array.new(to_js([1, 2, 3]))
assert bytes(numbers.to_py()) == b"\x01\x02\x03"
numbers.assign(bytearray(3))
proxy = create_proxy(detok_py.StreamingDetokenizer())
assert run_js("(stream) => { try { stream.feed(3); } catch (error) { return String(error); } }")(
    proxy
)
proxy.destroy()
