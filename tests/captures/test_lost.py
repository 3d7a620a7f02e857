"""What storage or a log has taken out of a recording is said, and what is left of it is read."""

import json

import pytest
from recordings import delta, finish, judged, shown, sse

from detok_py.errors import CaptureError

BODY = sse(*[delta(f"Stück {n} ") for n in range(4)], finish("stop"))


@pytest.mark.parametrize(
    ("first", "last", "left", "events"),
    [
        # All of an event; the end of one and the beginning of the next; from inside one on.
        ("data: ", "\n\n", "Stück 0 Stück 2 Stück 3 ", 0),
        ('tent": "Stück 1', 'tent": "Stück 2', "Stück 0 Stück 3 ", 1),
        ('tent": "Stück 1', "[DONE]\n\n", "Stück 0 ", 1),
    ],
)
def test_nul_bytes_in_the_place_of_text_are_said_and_what_is_around_them_is_read(
    first, last, left, events
):
    begin = BODY.index(first, BODY.index("Stück 0"))
    end = BODY.index(last, begin) + len(last)
    count = len(BODY[begin:end].encode())
    data = BODY[:begin].encode() + bytes(count) + BODY[end:].encode()
    found = judged(data)
    assert shown(found) == left
    said = f"{count} NUL bytes are in the place of text, which is missing (line "
    assert said in found["verdict"]
    assert ("1 event breaks off" in found["verdict"]) == bool(events)
    assert "Nothing else broken was found in it" in found["verdict"]
    # A connection that is cut writes none.
    assert "connection" not in found["verdict"]


def lines(width: int, ending: str = "") -> bytes:
    out = []
    texts = ("kurz", "lang und länger als die anderen", "auch lang, und lang", "k")
    for n, text in enumerate(texts):
        line = f"Oct  2 09:14:1{n} gw7 relay[18]: data: " + json.dumps(delta(text))
        out.append(line if len(line) <= width else line[:width] + ending)
    return "\n".join(out).encode()


def test_lines_of_a_log_that_were_cut_are_counted_one_by_one_with_their_width():
    whole = judged(lines(999))
    assert "breaks off" not in whole["verdict"] and len(whole["rows"]) == 4
    width = max(len(line) for line in lines(999).split(b"\n") if b'"k"' in line or b"kurz" in line)
    found = judged(lines(width + 3))
    said = (
        "2 events break off or cannot be read (line 2, line 3): their texts are missing. "
        f"Each line that breaks off has {width + 3} bytes, and no line has more: a log cut them "
        "there."
    )
    assert said in found["verdict"]
    quoted = [reason for _, reason in found["problems"]]
    assert "lang" in quoted[0] and "auch" not in quoted[0] and "auch" in quoted[1]
    # One such line may be the end of the file.
    alone = b"\n".join(lines(width + 3).split(b"\n")[:2])
    assert "Each line" not in judged(alone)["verdict"]


def test_a_log_of_which_every_event_was_cut_is_refused_with_their_number():
    with pytest.raises(CaptureError, match="4 events break off or cannot be read"):
        judged(lines(60, "..."))
