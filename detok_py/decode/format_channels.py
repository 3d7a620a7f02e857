"""The channels of an answer in one of the formats that models speak (detok_py.formats).

In: text, in which each marker that is one token is a symbol. Out: deltas, as soon as they are
certain. Held: what the reader of the format holds, and in front of it the end of the text that may
become a stop or an artifact. If the reader holds what is either text or the end of a section, text
that the stops hold is shown early, as far as it is certain in both cases.

A pipeline (pipeline.py) uses it in the place of `Channels`.
"""

from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ..formats.chat_format import ChatFormat
from ..formats.find import TURNS, find_start, opens_reasoning
from ..formats.form import Form, marker_spellings
from ..formats.reader import Reader
from ..formats.state import FIELDS, Said
from ..formats.table import FORMATS
from ..formats.values import has_mark, is_mark, parameter_types, schemas_text
from .artifacts import ARTIFACTS
from .channels import CONTENT, TOOL_CALL, Channels
from .detokenizer import MOST_OF_PROMPT
from .stage import Delta, common
from .table import kept
from .utf8 import ended
from .word_search import shared

if TYPE_CHECKING:
    from ..formats.tool_call import ToolCall

FEW_OF_PROMPT = 32  # ids at the end of a prompt, enough to find the section that it opens
MOST_AHEAD = 512  # characters of what the reader holds that are looked at


def marker_tokens(vocabulary: Any) -> dict[bytes, int]:
    """Return the ids of all tokens that may be markers, by their bytes: the special and added ones,
    or those that are spelled as markers. Of two with the same bytes the lower id counts.
    """
    memo: dict[str, dict[bytes, int]] = vocabulary._memo
    if "markers" not in memo:
        found: dict[bytes, int] = {}
        size, added, special = len(vocabulary), vocabulary.added_ids, vocabulary.special_ids
        wanted = None if added is not None else {each.encode() for each in marker_spellings()}
        for token_id in range(size) if added is None else sorted(added | special):
            data = vocabulary._source(token_id) if token_id < size else None
            if data is not None and (wanted is None or data in wanted or token_id in special):
                found.setdefault(bytes(data), token_id)
        memo["markers"] = found  # only now: another thread reads it
    return memo["markers"]


# A format for a vocabulary, with the ids of its markers and of the tokens that end a turn.
Known = NamedTuple(
    "Known", [("form", Form), ("marker_ids", "dict[int, str]"), ("end_ids", "list[int]")]
)


def form_for(name: str, vocabulary: Any, spec: Any = None) -> Known:
    """Return a format for a vocabulary, with the markers that are tokens in it; without one all
    markers are text. `spec` is that of a format which the table does not have.
    """

    def make() -> Known:
        tokens = {} if vocabulary is None else marker_tokens(vocabulary)
        form = Form(name, lambda spelling: spelling.encode() in tokens, spec)
        ids = [(tokens.get(each.encode()), each) for each in form.spellings]
        ends = [tokens.get(each.encode()) for each in form.spec.ends]
        return Known(
            form,
            {i: each for i, each in ids if i is not None},
            [i for i in ends if i is not None],
        )

    known: Known = kept(vocabulary, "forms", (name, spec), make)
    return known


def _artifacts_of(ends: "tuple[str, ...]") -> "tuple[str, ...]":
    """Return the well-known artifacts, and what ends a turn of a format."""
    more = [end + "\n" * n for end in ends for n in range(3)]
    return ARTIFACTS + tuple([end for end in more if end not in ARTIFACTS])


def known_format(name: "str | None") -> "str | None":
    """Return the name of a format, None if the table has none of this name: a packed vocabulary may
    be newer.
    """
    return name if name in FORMATS else None


def start_of(source: Any, name: "str | ChatFormat | None", pairs: Any = ()) -> str:
    """Return the section that a detokenizer's prompt opens: in a format, or with these pairs of
    tags around reasoning.
    """
    for count in (FEW_OF_PROMPT, MOST_OF_PROMPT):
        tail = source.prompt_tail(count) if hasattr(source, "prompt_tail") else ""
        if not tail or any(each in tail for each in TURNS):
            break
    return start_in(tail, name, pairs)


def start_in(tail: str, name: "str | ChatFormat | None", pairs: Any = ()) -> str:
    """Return the section that a prompt opens which ends in `tail`.

    >>> start_in("<|im_start|>assistant\\n<think>\\n", None, [("<think>", "</think>")])
    'reasoning'
    """
    if isinstance(name, ChatFormat):  # one that the table does not have
        pairs, name = name.spec.thinks, None
    if name is not None:
        return find_start(name, tail)
    return "reasoning" if opens_reasoning(tail, [(pair[0], pair[1]) for pair in pairs]) else CONTENT


def format_channels(
    name: Any, source: Any, stop: Any, tool_schemas: Any, options: dict[str, Any]
) -> "FormatChannels":
    """Return the channels of a format, or of its name, for a detokenizer. Raises ValueError for an
    unknown name.
    """
    own: ChatFormat | None = None
    if isinstance(name, ChatFormat):
        own = None if name.spec is FORMATS.get(name.name) else name
        name = name.name
    if own is None and name not in FORMATS:
        raise ValueError(
            f"format must be None, 'auto', 'json' or one of {', '.join(sorted(FORMATS))}, not {name!r}."
        )
    vocabulary = getattr(source, "vocabulary", None)
    if options["start"] == "auto":
        options["start"] = start_of(source, own or name)
    return FormatChannels(
        form_for(name, vocabulary, None if own is None else own.spec),
        stop,
        own=own,
        tool_schemas=tool_schemas,
        **options,
    )


def moved(saved: Any, before: Form, after: Form) -> Any:
    """Return a saved state of the channels of one form of a format for those of another, in which
    other markers are tokens.
    """

    def respelled(part: Any) -> Any:
        if isinstance(part, str):
            return "".join([symbol(c) if is_mark(c) else c for c in part])
        return tuple([respelled(each) for each in part]) if isinstance(part, tuple) else part

    def symbol(mark: str) -> str:
        spelling = before.spelled(mark)
        return after.mark(spelling) if spelling in after.spellings else spelling

    reader = respelled(saved[0])
    fields, at = list(reader[0]), FIELDS.index("pos")
    fields[at] = len(respelled(saved[0][0][FIELDS.index("buf")][: fields[at]]))
    return ((tuple(fields),) + reader[1:],) + tuple(saved[1:])


class FormatChannels:
    """Text to deltas, in a format for a vocabulary.

    `stop`, `include_stop`, `stop_scope` and `trim_artifacts` are those of `Channels`; stops are
    looked for in content, or in reasoning too, and never in the arguments of a call. `start` is
    "content", "reasoning" or "header". The well-known artifacts are those of `Channels` and what
    ends a turn of the format. `tool_schemas` is OpenAI's list of tools, or its JSON text: it types
    arguments where the markup does not. `own` is a format that the table does not have.

    >>> channels = FormatChannels(form_for("qwen3_hermes", None))
    >>> for chunk in ("Hi<tool_", 'call>{"name": "f", "argu', 'ments": {"a": 1}}</tool_call>'):
    ...     print([(*delta, delta.call, delta.name) for delta in channels.feed(chunk)])
    [('content', 'Hi', None, None)]
    [('tool_call', '', 0, 'f')]
    [('tool_call', '{"a": 1}', 0, None)]
    >>> channels.calls
    [ToolCall(None, 'f', '{"a": 1}', True)]
    """

    def __init__(
        self,
        known: Known,
        stop: Any = (),
        *,
        include_stop: bool = False,
        stop_scope: Any = "content",
        start: str = "content",
        trim_artifacts: Any = True,
        tool_schemas: Any = None,
        own: ChatFormat | None = None,
    ) -> None:
        form = known.form
        starts = (CONTENT, "reasoning") + (("header",) if form.spec.tree == "harmony" else ())
        if start not in starts:
            raise ValueError(
                f"start must be {' or '.join([repr(each) for each in starts])} in the format {form.name}, not {start!r}."
            )
        self.form = form
        if trim_artifacts is True:
            trim_artifacts = shared(("artifacts", form.spec.ends), _artifacts_of)
        # Stops and artifacts in the text of a section.
        self._edges = Channels(
            stop,
            include_stop=include_stop,
            stop_scope=stop_scope,
            reasoning=None,
            tools=None,
            trim_artifacts=trim_artifacts,
        )
        given = self._edges.options
        tool_schemas = schemas_text(tool_schemas)
        self.options: dict[str, Any] = {
            "stop": given["stop"],
            "include_stop": given["include_stop"],
            "stop_scope": given["stop_scope"],
            "start": start,
            "trim_artifacts": given["trim_artifacts"],
            "format": form.name if own is None else own,
            "tool_schemas": tool_schemas,
        }
        self._types = parameter_types(tool_schemas)
        # Markers are found by their ids, whether special tokens are skipped or not.
        self.tags: tuple[str, ...] = ()
        self.marker_ids: dict[int, str] = known.marker_ids
        self.end_ids: list[int] = known.end_ids
        self.reset()

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        self.reader: Reader = Reader(self.form, self.options["start"], self._types)
        self._edges.reset()
        self._at = self.channel  # the channel of the text that is searched for stops
        self._ahead = ""  # what was shown of the text that the stops hold
        # How many characters of what the reader holds came where no stop could end.
        self._safe: int = 0
        self._ended = False

    def forget(self) -> None:
        """Forget that the text has ended, and its calls."""
        self._edges.forget()
        self.reader.calls = []
        self._ended = False

    # ------------------------------------------------------------ what it is, what it holds

    @property
    def channel(self) -> str:
        """The channel of the next character, as far as is known."""
        return TOOL_CALL if self.reader.in_call else self.reader.text.section

    @property
    def stopped(self) -> str | None:
        """The stop that has ended the text."""
        return self._edges.stopped

    @property
    def held(self) -> str:
        """The text that waits."""
        return self._edges.held[len(self._ahead) :] + self.reader.waiting

    @property
    def at_rest(self) -> bool:
        """Whether text without the characters of `triggers` passes unchanged."""
        return self.triggers is not None

    @property
    def triggers(self) -> str | None:
        """The first characters of all that is searched for; None where text without them does not
        just pass, or changes what is markup.
        """
        stops = self._edges.triggers if not self._ended else None
        first = self.reader.triggers
        return None if stops is None or first is None else "".join(sorted(set(stops + first)))

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are searched for anywhere, split at markers that are tokens."""
        return self._edges.words + self.form.words

    @property
    def begun(self) -> str:
        """The beginning of a word that the text ends with, shown or not; "" if there is none."""
        reader = self.reader
        return reader.half or self.form.spelled(reader.text.held) or self._edges.begun

    begins_call: bool = False  # no delta of text begins a call: its name does

    @property
    def call_number(self) -> int | None:
        """The number of the call that the next character belongs to; None outside of one."""
        return len(self.calls) - 1 if self.calls and self.reader.in_call else None

    @property
    def calls(self) -> "list[ToolCall]":
        """The calls so far."""
        return self.reader.calls

    @property
    def open_call(self) -> str | None:
        """The arguments, so far, of a call that is not complete; None outside of one."""
        calls = self.reader.calls
        return calls[-1].arguments if calls and self.reader.in_call else None

    def mark_call(self) -> Any:
        """Return how far the calls have come, for `call_since`."""
        return self.reader.calls_mark

    def call_since(self, mark: Any) -> str | None:
        """Return what was added to the arguments of the last call; None if more has changed."""
        if self.reader.calls_mark[:-1] != mark[:-1]:
            return None
        return "".join(self.calls[-1].parts[mark[-1] :]) if self.calls else ""

    def extend_call(self, text: str) -> None:
        """Add text from a table to the arguments of the last call."""
        self.reader.calls[-1].parts.append(text)

    @property
    def ends_with_call(self) -> bool:
        """Whether the last call is complete."""
        return bool(self.calls) and self.calls[-1].complete

    def expects(self, tag: str) -> bool:
        """Say whether a token is a marker."""
        return True

    def symbols(self, text: str, tag: str) -> str:
        """Return the text that a token ends, which is a marker, with its symbol."""
        return text[: -len(tag)] + self.form.mark(tag) if text.endswith(tag) else text

    # ------------------------------------------------------------ text

    def feed(self, text: str) -> list[Delta]:
        """Take text; return the deltas that are certain."""
        out: list[Delta] = []
        self.feed_into(out, text)
        return out

    def feed_into(
        self, out: list[Delta], text: str, no_stop: bool = False, no_stop_after: bool = False
    ) -> None:
        """Take text; append the deltas that are certain to `out`. The two flags are those of
        `Channels`.
        """
        if self.stopped is not None or not text:
            return
        if self._ended:
            ended("feeding it")
        if not self.marker_ids and has_mark(text):
            # A source of one's own gives half a surrogate pair, which is no symbol.
            text = "".join(["\N{REPLACEMENT CHARACTER}" if is_mark(c) else c for c in text])
        reader, safe, calls = self.reader, self._safe, len(self.calls)
        for said in reader.feed(text):
            if said.name is not None and self.stopped is None:
                calls += 1
            if safe and said.channel and said.call is None:
                first = said.text[:safe]
                self._take(out, Said(said.channel, first, None, None), True, no_stop_after)
                said = Said(said.channel, said.text[safe:], None, None)
            safe = 0
            self._take(out, said, no_stop, no_stop_after)
        if self.stopped is not None:
            # The reader has read on behind the stop, perhaps into a call that is still open.
            reader.calls = reader.calls[:calls]
            reader.at, reader.stack, reader.ahead = "text", [], ""
            reader.buf = reader.half = reader.text.held = reader.call.raw = ""
        self._safe = min(len(reader.waiting), len(text) + self._safe if no_stop else safe)
        if self._at != self.channel:
            self._turn(out)
        if self._edges.held and self.stopped is None:
            self._look_ahead(out)

    def _take(self, out: list[Delta], said: "Said", no_stop: bool, no_stop_after: bool) -> None:
        if self.stopped is not None:
            return
        if said.call is not None:
            self._turn(out)
            delta = Delta(TOOL_CALL, said.text)
            delta.call, delta.name = said.call, said.name
            out.append(delta)
            return
        if said.channel != self._at:
            self._turn(out)
            self._at = said.channel or self.channel
        if not said.channel:
            return
        if self._at == CONTENT or self.options["stop_scope"] == "everywhere":
            found: list[Delta] = []
            self._edges.feed_into(found, said.text, no_stop, no_stop_after)
            self._show(out, found)
        else:
            self._emit(out, said.text)

    def _turn(self, out: list[Delta]) -> None:
        """End a section: text of it that the stops hold is certain now."""
        found: list[Delta] = []
        self._edges.end_segment(found)
        self._show(out, found)
        self._ahead = ""
        self._at = self.channel

    def _show(self, out: list[Delta], found: list[Delta]) -> None:
        """Emit text that the stops have released, without the part that was shown early."""
        text = "".join([each.text for each in found])
        n = min(len(text), len(self._ahead))
        self._ahead = self._ahead[n:]
        self._emit(out, text[n:])

    def _emit(self, out: list[Delta], text: str) -> None:
        if text:
            if out and out[-1].channel == self._at and self._at != TOOL_CALL:
                text = out.pop().text + text
            out.append(Delta(self._at, text))

    def _look_ahead(self, out: list[Delta]) -> None:
        """Show text that the stops hold early, as far as it is certain whether the reader's held
        symbols become text, or end the section or the answer.
        """
        edges, follows = self._edges, self.reader.waiting[:MOST_AHEAD]
        if not follows or self.reader.in_call:
            return
        state = edges.save()
        trials: list[Callable[[list[Delta]], None]] = [
            lambda found: edges.feed_into(found, follows),
            lambda found: edges.feed_into(found, follows, True, True),
            edges.flush_into,
        ]
        certain = edges.held
        for trial in trials:
            found: list[Delta] = []
            trial(found)
            certain = certain[: common(certain, "".join([each.text for each in found]))]
            edges.load(state)
        self._emit(out, certain[len(self._ahead) :])
        self._ahead = certain if len(certain) > len(self._ahead) else self._ahead

    def flush_into(self, out: list[Delta], trim_end: bool = True) -> None:
        """End the text; append what was held to `out`, without the artifacts at its end."""
        if self.stopped is None and not self._ended:
            for said in self.reader.flush():
                self._take(out, said, False, False)
        found: list[Delta] = []
        self._edges.flush_into(found, trim_end)
        self._show(out, found)
        self._ended = True

    def flush(self) -> list[Delta]:
        """End the text; return what was held. Until `reset`, a further `feed` raises
        StreamEndedError.
        """
        out: list[Delta] = []
        self.flush_into(out)
        return out

    # ------------------------------------------------------------ the state

    def save(self, mark: bool = False) -> Any:
        """Return the state as plain values; with `mark` in brief, to go back in this object."""
        calls: Any = self.reader.calls_mark
        if not mark:
            calls = [(c.id, c.name, tuple(c.parts), c.complete) for c in self.calls]
        own = self._at, self._ahead, self._safe, self._ended
        return self.reader.state, self._edges.save(), own, calls

    def load(self, state: Any) -> None:
        """Take a state that `save` of FormatChannels made alike returned, or what JSON made of
        it.
        """
        reader, edges, own, calls = state
        self._at, self._ahead, self._safe, self._ended = own
        if isinstance(calls, tuple):
            count, call_id, complete, parts = calls
            del self.calls[count:]
            for last in self.calls[-1:]:
                last.id, last.complete = call_id, complete
                del last.parts[parts:]
            calls = None
        self.reader.load(reader, calls)
        self._edges.load(edges)

    @staticmethod
    def without_calls(state: Any) -> Any:
        """Return a saved state without the arguments of calls."""
        return state[:-1] + ([(each[0], each[1], (), each[3]) for each in state[-1]],)

    @property
    def key(self) -> Any:
        """The part of the state that future output depends on, for a text that has not ended. The
        third part says whether any text waits.
        """
        waits = bool(self.held)
        return self.reader.state, self._edges.key, waits, self._at, self._ahead, self._safe

    @key.setter
    def key(self, key: Any) -> None:
        reader, self._edges.key, _, self._at, self._ahead, self._safe = key
        self.reader.load(reader)
