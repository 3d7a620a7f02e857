"""Readers of formats that are wrong on purpose, each in one way, as adapters of the suite.

In: a case of a format. Out: a stream that is right but for one fault. A case is worth having if one
of them fails it.
"""

from wrong_adapters import Mapped, ours, with_options


def ignoring(name):
    """Return an adapter that does not look at an option."""
    return lambda case: ours.adapter(with_options(case, **{name: None}))


def only_text(case):
    """Markers are left out, and all else is content."""
    stream = ours.adapter({**case, "options": {}})
    return Mapped(stream, lambda text: [{"content": text}] if text else [])


class AtTheEnd:
    """Reads the whole answer, once it is there."""

    def __init__(self, case):
        self.stream, self.ids = ours.adapter(case), []
        self.calls = self.stream.calls

    def push(self, ids):
        self.ids += ids

    def flush(self):
        return [*self.stream.push(self.ids), *self.stream.flush()]


def changing(change):
    """Return an adapter that changes the deltas of a right reader. `change` takes a delta, and
    whether a call came before it; it returns the delta that is given, or None for no delta.
    """

    class Changed:
        def __init__(self, case):
            self.stream, self.called = ours.adapter(case), False

        def push(self, ids):
            return list(self.changed(self.stream.push(ids)))

        def flush(self):
            return list(self.changed(self.stream.flush()))

        def changed(self, deltas):
            for delta in deltas:
                found = change(delta, self.called)
                self.called = self.called or "call" in delta
                if found is not None:
                    yield found

    return Changed


def dropping(drops):
    return changing(lambda delta, called: None if drops(delta, called) else delta)


WRONG_READERS = {
    "only text": only_text,
    "all at the end": AtTheEnd,
    "the start is ignored": ignoring("start"),
    "schemas are ignored": ignoring("tool_schemas"),
    "text behind a call is dropped": dropping(lambda delta, called: called and "content" in delta),
    "reasoning is dropped": dropping(lambda delta, called: "reasoning" in delta),
    "only the first call": dropping(lambda delta, called: delta.get("call", 0) > 0),
    "all calls are one": changing(
        lambda delta, called: {**delta, "call": 0} if "call" in delta else delta
    ),
}
