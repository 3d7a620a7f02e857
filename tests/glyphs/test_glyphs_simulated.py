"""The verdict on chat pages that seeds draw: a correct page breaks no rule, a fault breaks one."""

import pytest
from simulated_pages import FAULTS, make_page

from detok_py.glyphs.verdict import verdict

PART = 50


def violations(page):
    """Return what the verdict says that a page breaks."""
    return [(e["id"], e["text"]) for e in verdict(page.seen, page.options)["violations"]]


def accused(seeds):
    """Return the correct pages that break a rule, and which."""
    pages = {seed: make_page(seed) for seed in seeds}
    return {
        f"{seed} {page.kind}": found for seed, page in pages.items() if (found := violations(page))
    }


def missed(fault, seeds):
    """Return the pages whose fault breaks no rule, and what the fault is."""
    pages = {seed: make_page(seed, fault) for seed in seeds}
    return {
        seed: page.broken for seed, page in pages.items() if page.broken and not violations(page)
    }


@pytest.mark.sampled(8)
@pytest.mark.parametrize("first", range(0, 8 * PART, PART))
def test_a_correct_page_breaks_no_rule(first):
    assert accused(range(first, first + PART)) == {}


@pytest.mark.parametrize(
    ("seed", "found"),
    [
        (4542, "a title that repeats the prompt passed for an answer that the page had before"),
        (5532, "a prompt on the next line that begins as the title ends passed for a repetition"),
        (5619, "a title of words of the prompt passed for an answer that the page had before"),
        (8264, "a prompt that ends as the answer begins passed for a repetition"),
        (8556, "a long end of a title passed for repeated by the prompt on the next line"),
    ],
)
def test_what_a_seed_has_found_stays_mended(seed, found):
    assert accused([seed]) == {}, found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_an_answer_breaks_a_rule(fault):
    assert missed(fault, range(20)) == {}


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 6000, 1000))
def test_the_same_holds_of_many_pages(first):
    assert accused(range(first, first + 1000)) == {}
    assert {
        fault: found for fault in FAULTS if (found := missed(fault, range(first, first + 100)))
    } == {}
