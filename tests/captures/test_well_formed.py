"""What MicroPython's parser of JSON lets pass is found by the form of the text."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from detok_py.captures.well_formed import is_json

SEEDS = (
    '{"a":[1,-2.5e+10,"x\\n\\u00e9",true,null,{}],"b":{"c":""}}',
    "[[],{}]",
    '"a\\\\"',
    "1E5",
    "[ 0.10 , 0 ]",
)
LETTERS = st.sampled_from('{}[]:,"\\ \n\t01259.eE+-truefalsn/uxé\x01\x7f')


def is_strict(text):
    def refuse(name):
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 60), LETTERS | st.just("")), max_size=3),
    st.booleans(),
)
@example("[1 2]", [], False)
@example('"\\u00e"', [], False)
@example('""\\"', [], False)
@example("[1e+-1]", [], False)
def test_a_text_is_json_if_a_strict_parser_takes_it(text, changes, inserts):
    for at, letter in changes:
        text = text[:at] + letter + text[at + (not inserts) :]
    assert is_json(text) == is_strict(text), text
