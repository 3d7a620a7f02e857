"""What is remembered of somebody else's tokenizer."""

import gc
import weakref

from test_window import Exact, pushed

from detok_py.tokenizers.readable import MAX_KNOWN


def test_an_object_is_forgotten_once_as_many_others_have_come_as_are_remembered():
    tokenizers = [Exact() for _ in range(MAX_KNOWN + 1)]
    first = weakref.ref(tokenizers[0])
    for tokenizer in tokenizers:
        assert pushed(tokenizer, [97]) == ["a", ""]
    del tokenizers[0]
    gc.collect()
    assert first() is None
