"""The steps of text between markers, and of what follows a call."""

from typing import TYPE_CHECKING

from .form import CONTENT, REASONING

if TYPE_CHECKING:
    from .state import State


def text(r: "State") -> bool:
    """Show text, up to a marker that is markup here."""
    buf, held, i = r.buf, r.text.held, 0
    markers = r.form.markers(r)
    while i < len(buf):
        if not held:
            end = i
            while end < len(buf) and buf[end] not in markers.first:
                end += 1
            if end > i:
                r.show(buf[i:end])
                i = end
                markers = r.form.markers(r)
                continue
        held += buf[i]
        i += 1
        while held:
            marker = held.lstrip("\n")
            if marker in markers.does and len(held) - len(marker) <= 2:
                r.text.held, r.buf = held[: len(held) - len(marker)], buf[i:]
                return apply_marker(r, marker, markers.does[marker])
            if held in markers.begun:
                break
            r.show(held[0])
            held = held[1:]
            markers = r.form.markers(r)
    r.buf, r.text.held = "", held
    return False


def apply_marker(r: "State", marker: str, found: "tuple[str, int]") -> bool:
    """Do what a marker does. If it ends a section, the newlines before it are not shown."""
    does, at = found
    if does == "silent":
        return True
    if does == "call":
        call = r.form.calls[at]
        r.opener, r.began = at, len(r.calls)
        r.begin(marker + r.buf)
        if call.bare:
            r.buf = marker + r.buf
        return r.go(call.body)
    if (does == "thought" and r.text.section != REASONING) or (
        does == "unwrap" and not r.text.wrapped
    ):
        r.show(r.text.held)
    r.end_run()
    r.text.after_call = does in ("block", "unblock")
    if does == "think":
        r.text.section, r.text.after_reasoning = REASONING, False
    elif does == "thought":
        r.text.section, r.text.after_reasoning = CONTENT, True
    elif does == "wrap":
        r.text.section, r.text.wrapped = CONTENT, True
    elif does == "unwrap":
        r.text.wrapped = False
    if does == "unblock":
        return r.go("text")
    r.text.skip = 2
    return r.go("thought" if does == "think" and r.form.spec.thought else "edge")


def thought(r: "State") -> bool:
    """Drop the name after the marker that opens reasoning."""
    name = r.form.spec.thought
    if len(r.buf) < len(name) and name.startswith(r.buf) and not r.ended:
        return False
    if r.buf.startswith(name):
        r.take(len(name))
    elif r.ended and name.startswith(r.buf):
        r.buf = ""
    return r.go("edge")


def edge(r: "State") -> bool:
    """Drop the newlines behind a marker."""
    while r.buf and r.text.skip and r.buf[0] == "\n":
        r.take(1)
        r.text.skip -= 1
    if r.buf or not r.text.skip:
        return r.go("text")
    return False


def after(r: "State") -> bool:
    """Drop space and what closes the call; other text is text, with its space."""
    at = r.behind(0, "`" if r.grammar.body == "deepseek_r1" else "")
    if r.closes(at):
        if r.call.whole and r.calls:
            r.complete()
        r.take(at + len(r.grammar.close))
    return r.leave()
