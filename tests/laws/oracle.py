"""What any correct stream would give, by brute force, and the walks that compare a stage with it.

Nothing here knows how the stages work. `Certain` takes a function from a whole input to its final
output and says what is certain after a prefix: the longest common prefix of the outputs of all
inputs that go on from it. `final_deltas` is such a function, written from the policies (DESIGN 4
and 5) by looking at every position of the text.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


def common(a: Any, b: Any) -> Any:
    """Return the longest common prefix of two sequences."""
    if b[: len(a)] == a:
        return a
    at = 0
    while at < len(a) and at < len(b) and a[at] == b[at]:
        at += 1
    return a[:at]


def left_out(known: Any, whole: Any) -> Any:
    """Return `whole` without what it begins with in common with `known`, the text of a prompt."""
    return whole[len(common(known, whole)) :]


class Certain:
    """The certain text after an input: the common prefix of `final` over every continuation of at
    most `depth` units of `alphabet`.

    `depth` must reach as far as anything can be open: the longest stop, tag, run of markers or
    character.
    """

    def __init__(self, final: Callable[[Any], Any], alphabet: Iterable[Any], depth: int) -> None:
        self.final = final
        self.alphabet = list(alphabet)
        self.depth = depth
        self._finals: dict[Any, Any] = {}
        self._known: dict[tuple[Any, int], Any] = {}

    def whole(self, given: Any) -> Any:
        """Return the final output of an input that ends here."""
        if given not in self._finals:
            self._finals[given] = self.final(given)
        return self._finals[given]

    def __call__(self, given: Any) -> Any:
        return self._after(given, self.depth)

    def _after(self, given: Any, depth: int) -> Any:
        known = self._known.get((given, depth))
        if known is None:
            known = self.whole(given)
            for unit in self.alphabet if depth else ():
                if not len(known):
                    break
                known = common(known, self._after(given + unit, depth - 1))
            self._known[given, depth] = known
        return known


def chunkings(given: Any) -> Iterator[list[Any]]:
    """Yield every way to cut an input into non-empty chunks."""
    if not len(given):
        yield []
    for size in range(1, len(given) + 1):
        for rest in chunkings(given[size:]):
            yield [given[:size], *rest]


def characters(deltas: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return deltas as one pair (channel, character) a character."""
    return tuple((channel, character) for channel, text in deltas for character in text)


def same(out: Any) -> Any:
    return out


def obeys_the_law(
    make: Callable[[], Any],
    certain: Certain,
    nothing: Any,
    most: int,
    flat: Callable[[Any], Any] = same,
) -> int:
    """Walk through all inputs of at most `most` units; after each one compare with what is certain,
    and with the final output.

    `make` gives a fresh stage, `nothing` is the empty input, `flat` turns an output into a sequence
    that can be joined by `+`. At every step the state goes through JSON into a new stage, and the
    end of the stream is tried. Returns the number of inputs.
    """

    def walk(given: Any, state: Any, shown: Any, left: int) -> int:
        count = 1
        for unit in certain.alphabet if left else ():
            stage = make()
            stage.load(json.loads(json.dumps(state)))
            longer = given + unit
            now = shown + flat(stage.feed(unit))
            assert now == certain(longer), (
                f"after {longer!r}: {now!r} is shown, {certain(longer)!r} is certain"
            )
            after = stage.save()
            whole = now + flat(stage.flush())
            assert whole == certain.whole(longer), (
                f"{longer!r} ended as {whole!r}, not as {certain.whole(longer)!r}"
            )
            count += walk(longer, after, now, left - 1)
        return count

    first = make()
    state = first.save()
    return walk(nothing, state, flat(first.flush()), most)


def ids_obey_the_law(
    make: Callable[[], Any], certain: Certain, ids: Sequence[int], most: int
) -> None:
    """Push all sequences of at most `most` ids into a chat; after each id compare what is shown
    with what is certain, and at the end with the final output, also behind a saved state.

    A stream that comes out of the table must show the same.
    """
    sequences = [given for n in range(most + 1) for given in itertools.product(ids, repeat=n)]
    for given in sequences:
        for _ in range(2):
            chat, shown = make(), ()
            for at, token_id in enumerate(given, 1):
                shown += characters(chat.push(token_id))
                assert shown == certain(given[:at]), (given[:at], chat)
            state = json.loads(json.dumps(chat.save()))
            assert shown + characters(chat.flush()) == certain.whole(given), (given, chat)
            again = make()
            again.load(state)
            assert shown + characters(again.flush()) == certain.whole(given), (given, chat)


def ignores_cuts(
    make: Callable[[], Any], certain: Certain, given: Any, flat: Callable[[Any], Any] = same
) -> None:
    """Feed an input in every chunking; after each chunk the output is what is certain, however the
    chunks before it were cut.
    """
    nothing = flat(make().flush())
    for chunks in chunkings(given):
        stage = make()
        shown, fed = nothing, given[:0]
        for chunk in chunks:
            fed = fed + chunk
            shown = shown + flat(stage.feed(chunk))
            assert shown == certain(fed), (chunks, fed)
            assert shown + flat(stage.feed(given[:0])) == shown, "an empty chunk changed something"
        assert shown + flat(stage.flush()) == certain.whole(given), chunks


def final_text(text: str, stops: Sequence[str], include: bool = False, min_chars: int = 0) -> str:
    """Return what is shown of a whole text: all before (or with `include` up to the end of) the
    stop that is complete first.
    """
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop) and end > min_chars]
        if complete:
            return text[:end] if include else text[: end - max(map(len, complete))]
    return text


def furthest(text: str, words: Sequence[str], once: str = "", most: int = 4) -> int:
    """Return the length of the longest beginning of `text` that is at most `most` of `words`,
    `once` being one of them at most once.
    """
    reached = {(0, False)}
    for _ in range(most):
        next_word = {
            (at + len(word), used)
            for at, used in reached
            for word in words
            if text.startswith(word, at)
        }
        next_once = {
            (at + len(once), True)
            for at, used in reached
            if once and not used and text.startswith(once, at)
        }
        reached |= next_word | next_once
    return max(at for at, _ in reached)


def final_deltas(
    text: str,
    *,
    stops: Sequence[str] = (),
    include: bool = False,
    everywhere: bool = False,
    reasoning: Any = None,
    tools: Any = None,
    start: str = "content",
    edges: Sequence[str] = (),
) -> tuple[tuple[str, str], ...]:
    """Return what is shown of a whole text, as (channel, character) pairs.

    `reasoning` and `tools` are lists of pairs, or one pair. A pair of reasoning can be followed by
    "all"; a tool's close tag can be None.
    """
    channel, thought = start, start == "reasoning"
    thoughts, calls = (
        [each] if each and isinstance(each[0], str) else each or [] for each in (reasoning, tools)
    )
    closes = [pair[1] for pair in (calls[:1] if start == "tool_call" else thoughts)]
    segments: list[tuple[str, str]] = []
    begin, stopped, trailing = 0, False, True
    for end in range(1, len(text) + 1):
        tags = {}
        if channel == "content":
            tags |= {pair[0]: "reasoning" for pair in thoughts if not thought or "all" in pair[2:]}
        else:
            tags |= {close: "content" for close in closes if close is not None}
        if channel == "content" or closes == [None]:
            tags |= {pair[0]: "tool_call" for pair in calls}
        active = set(stops) if channel == "content" or everywhere else set()
        complete = [word for word in active | set(tags) if text[begin:end].endswith(word)]
        if not complete:
            continue
        word = max(complete, key=len)
        if word in active:
            segments.append(
                (channel, text[begin:end] if include else text[begin : end - len(word)])
            )
            stopped, trailing = True, not include
            break
        segments.append((channel, text[begin : end - len(word)]))
        thought = thought or tags[word] == "reasoning"
        closes = [pair[1] for pair in (*thoughts, *calls) if pair[0] == word]
        channel, begin = tags[word], end
    if not stopped:
        segments.append((channel, text[begin:]))
    once = [pair[0] for pair in thoughts] if start == "reasoning" else []
    channel, first = segments[0]
    segments[0] = channel, first[max(furthest(first, edges, each) for each in once or [""]) :]
    channel, last = segments[-1]
    if trailing:
        segments[-1] = (
            channel,
            last[: len(last) - furthest(last[::-1], [edge[::-1] for edge in edges])],
        )
    return characters(segments)
