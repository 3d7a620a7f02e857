"""The public names: this list is the promise. Checks outside the repository call them."""

import inspect

import pytest

import detok_py

NAMES = {
    "ByteVocabulary", "ChatStream", "Delta", "DetokError", "Detokenizer", "IncrementalDetokenizer", "ProtocolError", "StopStrings",
    "StreamEndedError", "StreamingDetokenizer", "TokenizerFormatError", "Vocabulary", "VocabularyError", "last_complete_utf8_end",
    "load_tokenizer", "strip_thinking", "utf8_expected_len",
}  # fmt: skip


def test_the_public_names_are_these_and_no_others():
    assert set(detok_py.__all__) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_public_name_is_there_and_says_what_it_does(name):
    found = getattr(detok_py, name)
    # The wheel that a browser downloads has left its docstrings behind, its own included.
    assert inspect.getdoc(found) or not detok_py.__doc__


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        detok_py.nonsense  # noqa: B018


def test_star_import_brings_them_all():
    namespace = {}
    exec("from detok_py import *", namespace)
    assert set(namespace) - {"__builtins__"} == NAMES


def parameters(function):
    return [str(parameter).split(":")[0].split("=")[0].strip() for parameter in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        ("utf8_expected_len", ["lead"]),
        ("last_complete_utf8_end", ["data"]),
        ("StreamingDetokenizer", ["errors"]),
        (
            "Detokenizer",
            ["vocabulary", "prompt_ids", "skip_special_tokens", "byte_fallback", "errors", "unknown", "spans"],
        ),
        ("IncrementalDetokenizer", ["tokenizer", "prompt_ids"]),
        ("strip_thinking", ["text", "open", "close"]),
        ("ChatStream", ["detokenizer", "stop", "eos_ids", "reasoning", "tools", "start", "trim_artifacts"]),
    ],
)
def test_the_parameters_that_callers_name_are_there(function, names):
    given = parameters(getattr(detok_py, function))
    assert [name for name in given if name in names] == names
