"""The alignment of tokens and characters, for logprobs and highlighting.

In: the items that a Detokenizer takes. Out: for each token the characters (first, one past last) of
the text. Held: the owners of what the stages hold.

A `Trace` runs stages of its own, made from the rules of the chain, a character at a time. Each
stage has a queue of its input, each unit with the first and last token that it came from. The
output of a stage belongs to the units that it has consumed: its queue without what it holds. If a
rule makes few characters of many (`<n>` becomes a newline), the new ones belong to all tokens of
the old ones.
"""

from typing import TYPE_CHECKING, NamedTuple

from .chain import Apart, Chain
from .item_stages import token_stages
from .stage import APART, Item, State, tuples
from .text_stages import AfterPrompt, WholeText, text_stages
from .utf8 import bad_byte, subparts

if TYPE_CHECKING:
    from .joins import Join, WholeRuns
    from .stage import ItemStage, TextStage

# A character, or a byte, with the first and the last token that it comes from.
Owned = NamedTuple("Owned", [("text", str), ("first", int), ("last", int)])
OwnedByte = NamedTuple("OwnedByte", [("byte", int), ("token", int)])


class Trace:
    """The spans of a text that grows."""

    def __init__(self, whole: Chain | Apart) -> None:
        self.chain: Chain = whole.chain if isinstance(whole, Apart) else whole
        joined = whole.rules if isinstance(whole, Apart) else []
        self.text: list[TextStage] = text_stages(
            list(self.chain.rules.text) + joined, self.chain.errors
        )
        self.queues: list[list[Owned]] = [[] for _ in self.text]
        self.of_run: int = len(self.text) - len(text_stages(joined, self.chain.errors))
        self.begin_run()
        self.place: int = 0  # that of `Apart`
        self.previous: int = 0  # the token before
        self.token: int = 0  # tokens that were pushed since the prompt
        self.length: int = 0  # characters of the text so far
        self.rest: str = ""  # text to leave out behind a prompt, as far as it has not come yet
        # Of each token the first character, one past the last, and the length of the text before;
        # the first is -1 without characters. Tuples, so that a state shares them.
        self.spans: list[tuple[int, int, int]] = []

    def begin_run(self) -> None:
        """Begin the rules anew."""
        chain = self.chain
        self.items: list[ItemStage]
        _, self.items = token_stages(chain.rules.tokens, chain.byte_fallback, chain.errors)
        self.join: Join | WholeRuns = chain.join_class(chain.errors, AfterPrompt)
        self.run: list[OwnedByte] = []  # bytes that were fed to the join, and are not settled
        self.out: str = ""  # what the join has put out of them
        self.text[: self.of_run] = text_stages(chain.rules.text, chain.errors)

    def begin(self, prompt: str) -> None:
        """Forget the characters of `prompt`, which was the text so far: count characters and tokens
        from here, and leave out the end of it that is still to come.
        """
        self.rest = prompt[self.length :]
        shift = self.token
        self.spans = []
        self.length = self.token = 0
        self.previous -= shift
        self.run = [OwnedByte(byte, token - shift) for byte, token in self.run]
        self.queues = [[Owned(c, a - shift, b - shift) for c, a, b in each] for each in self.queues]

    def push(self, item: Item | None) -> None:
        """Take the item of the next token, None for a skipped one."""
        token = self.token
        self.token += 1
        self.spans.append((-1, -1, self.length))
        if item is None:
            return
        if item.kind == APART:
            if self.place == 1:
                self._end_run()
            text = (" " if self.place else "") + item.text
            self._feed_text([Owned(c, token, token) for c in text], self.of_run)
            self.place = 2
            return
        if self.place == 2:
            self._feed_text([Owned(" ", token, token)], self.of_run)
        self.place = 1
        self._feed_items(0, [(item, token)])
        self.previous = token

    def _feed_items(self, at: int, items: list[tuple[Item, int]]) -> None:
        """Send items through the item stages from the one numbered `at` on, and into the join."""
        for stage in self.items[at:]:
            made: list[tuple[Item, int]] = []
            for item, owner in items:
                out = stage.feed(item)
                made += [(each, self.previous) for each in out[:-1]]
                made += [(each, owner) for each in out[-1:]]
            items = made
        for item, owner in items:
            self.run += [OwnedByte(byte, owner) for byte in item.data]
            text = self.join.feed(item)
            self.out += text[: len(text) - len(item.text)]
            self._settle_run()
            self._feed_text([Owned(c, owner, owner) for c in item.text])

    def _settle_run(self) -> None:
        """Assign the output of the join to the tokens of the bytes that it no longer holds."""
        used = self.run[: len(self.run) - len(self.join.run)]
        if not used:
            return
        errors = self.chain.errors
        data = bytes([byte for byte, _ in used])
        if len(self.out) == len(data) and errors != "backslashreplace":
            parts = [(1, char) for char in self.out]  # no byte has more than one
        else:
            parts = subparts(data, errors)
            # "hf": each invalid byte by itself, or each byte of a bad run
            if "".join([text for _, text in parts]) != self.out:
                parts = subparts(data, errors, single=True)
            if "".join([text for _, text in parts]) != self.out:
                parts = [(1, bad_byte(byte, errors)) for byte in data]
        chars: list[Owned] = []
        at = 0
        for size, text in parts:
            chars += [Owned(c, used[at].token, used[at + size - 1].token) for c in text]
            at += size
        self.run = self.run[len(used) :]
        self.out = ""
        self._feed_text(chars)

    def _feed_text(self, chars: list[Owned], first: int = 0) -> None:
        """Send characters through the text stages from the one numbered `first` on."""
        for at in range(first, len(self.text)):
            stage, queue = self.text[at], self.queues[at]
            joined = "".join([char.text for char in chars])
            if isinstance(stage, WholeText):  # that holds everything
                stage.feed(joined)
                queue += chars
                return
            before = "".join([char.text for char in queue]) + joined
            state = stage.state
            text = stage.feed(joined)
            cut = len(before) - len(stage.held)
            if text == before[:cut]:
                chars = queue + chars
                self.queues[at], chars = chars[cut:], chars[:cut]
                continue
            # Something is replaced: a character at a time shows what.
            stage.state = state
            out: list[Owned] = []
            for char in chars:
                text = stage.feed(char.text)
                size = len(stage.held)
                if text == char.text and not self.queues[at] and not size:
                    out.append(char)
                    continue
                self.queues[at].append(char)
                out += self._settle_text(at, text, size)
            chars = out
        for char in chars:
            if self.rest:
                is_known, self.rest = char.text == self.rest[0], self.rest[1:]
                if is_known:
                    continue
                self.rest = ""
            for token in range(max(char.first, 0), char.last + 1):
                begin, _, anchor = self.spans[token]
                self.spans[token] = (self.length if begin < 0 else begin, self.length + 1, anchor)
            self.length += 1

    def _settle_text(self, at: int, out: str, held: int) -> list[Owned]:
        """Assign the output of a stage to the owners of the characters that it has consumed."""
        queue = self.queues[at]
        used = queue[: len(queue) - held]
        self.queues[at] = queue[len(used) :]
        same = 0
        while same < min(len(out), len(used)) and out[same] == used[same].text:
            same += 1
        most = min(len(out), len(used)) - same
        after = 0  # characters behind a change that stay the same: " n't" becomes "n't"
        while after < most and out[len(out) - 1 - after] == used[len(used) - 1 - after].text:
            after += 1
        changed = used[same : len(used) - after] or used[-1:]
        first = min([char.first for char in changed], default=0)
        last = max([char.last for char in changed], default=0)
        middle = [Owned(c, first, last) for c in out[same : len(out) - after]]
        return used[:same] + middle + used[len(used) - after :]

    def _end_run(self) -> None:
        """End what the rules hold, and begin them anew."""
        for at, stage in enumerate(self.items):
            self._feed_items(at + 1, [(item, self.previous) for item in stage.flush()])
        self.out += self.join.flush()
        self._settle_run()
        self._end_text(0, self.of_run)
        self.begin_run()

    def _end_text(self, first: int, last: int) -> None:
        for at in range(first, last):
            self._feed_text(self._settle_text(at, self.text[at].flush(), 0), at + 1)

    def flush(self) -> None:
        """End the text."""
        self._end_run()
        self._end_text(self.of_run, len(self.text))

    def read(self) -> list[tuple[int, int]]:
        """Return the spans; a token without characters has an empty one where the text stood."""
        return [
            (first, last) if first >= 0 else (anchor, anchor) for first, last, anchor in self.spans
        ]

    @property
    def state(self) -> State:
        return (
            tuple([stage.state for stage in self.items]),
            (self.join.state, self.out, tuple(self.run)),
            tuple([stage.state for stage in self.text]),
            tuple([tuple(queue) for queue in self.queues]),
            (self.place, self.previous, self.token, self.length, self.rest),
            tuple(self.spans),
        )

    @state.setter
    def state(self, state: State) -> None:
        items, join, text, queues, counts = tuples(state[:-1])
        for stage, part in zip(self.items, items):
            stage.state = part
        self.join.state, self.out, run = join
        self.run = [OwnedByte(*each) for each in run]
        for text_stage, part in zip(self.text, text):
            text_stage.state = part
        self.queues = [[Owned(*each) for each in queue] for queue in queues]
        self.place, self.previous, self.token, self.length, self.rest = counts
        spans = state[-1]
        self.spans = list(spans if isinstance(spans, tuple) else tuples(spans))
