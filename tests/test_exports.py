"""The public names, which checks outside the repository use."""

import inspect

import pytest

import detok_py

NAMES = {
    "ByteVocabulary", "ChatFormat", "ChatStream", "Delta", "DetokError", "Detokenizer", "IncrementalDetokenizer", "ProtocolError", "StopStrings",
    "StreamEndedError", "StreamingDetokenizer", "Tokenizer", "ToolCall", "TokenizerFormatError", "Vocabulary", "VocabularyError", "last_complete_utf8_end",
    "load_tokenizer", "strip_thinking", "utf8_expected_len",
}  # fmt: skip


def test_the_public_names_are_exactly_these():
    assert set(detok_py.__all__) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_public_name_exists_and_has_a_docstring(name):
    found = getattr(detok_py, name)
    # The wheel for browsers has no docstrings.
    assert inspect.getdoc(found) or not detok_py.__doc__


@pytest.mark.native  # not in the wheel of a page
def test_what_a_notebook_needs_is_there_without_being_imported_by_star():
    assert {"TokenList", "widget"} <= set(dir(detok_py)) - set(detok_py.__all__)
    for name in ("TokenList", "widget"):
        assert inspect.getdoc(getattr(detok_py, name))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        detok_py.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("function", "names"),
    [
        ("utf8_expected_len", "lead"),
        ("last_complete_utf8_end", "data"),
        ("StreamingDetokenizer", "errors"),
        (
            "Detokenizer",
            "vocabulary prompt_ids skip_special_tokens byte_fallback errors unknown spans",
        ),
        ("IncrementalDetokenizer", "tokenizer prompt_ids"),
        ("strip_thinking", "text open close"),
        ("ChatStream", "detokenizer stop eos_ids reasoning tools start trim_artifacts"),
    ],
)
def test_public_parameters_keep_their_names(function, names):
    given = inspect.signature(getattr(detok_py, function)).parameters
    assert [name for name in given if name in names.split()] == names.split()
