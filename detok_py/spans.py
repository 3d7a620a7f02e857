"""Which characters each token took part in: the alignment that logprobs and highlighting need.

In: the entries that a Detokenizer takes. Out: for each token the characters (first, one past last) of the text. Held: the owners of
what the chain holds.

This is the slow twin of `Chain`: the same rules a character at a time, each carrying the first and last token that it came
from. Where a rule makes few characters of many (`<n>` becomes a newline), the new ones belong to all tokens of the old ones.
"""

from typing import Any

from .decoders import Apart, Chain, _held_text, _Suffix, bad_byte, tuples
from .utf8 import decode_utf8, subparts

# A character on its way: itself, the first token and the last token that it comes from.
Owned = Any


class Trace:
    """The spans of a text that grows. `tokens` counts what was pushed, prompt included; `first` is the first that is asked about."""

    def __init__(self, whole: Any, byte_fallback: str, errors: str) -> None:
        self.apart = whole if whole.__class__ is Apart else None
        chain: Chain = whole.chain if self.apart else whole
        self.chain = chain
        self.place = 0  # that of `Apart`
        self.hf = byte_fallback == "hf" and errors != "strict"
        self.errors = errors
        self.stages = [recipe() for recipe in chain.recipes + (self.apart.recipes if self.apart else [])]
        self.queues: list[list[Owned]] = [[] for _ in self.stages]
        self.items = chain.fresh_items()
        self.pending: list[list[int]] = []  # (byte, owner) of an unfinished character or run
        self.previous = 0  # the token before, to whom a suffix's space belongs
        self.token = 0
        self.length = 0  # characters of the text so far
        self.spans: list[list[int]] = []  # [first, last, anchor]; first is -1 for a token without characters

    def begin(self) -> None:
        """Forget the prompt's characters: what comes is counted from 0, and tokens from the first after the prompt."""
        self.spans = []
        self.length = 0
        shift = self.token
        self.token = 0
        self.previous -= shift
        self.pending = [[byte, owner - shift] for byte, owner in self.pending]
        self.queues = [[(c, a - shift, b - shift) for c, a, b in queue] for queue in self.queues]

    def push(self, entry: Any, nothing: bool) -> None:
        """Take the entry of the next token; `nothing` says that it is a skipped one."""
        token = self.token
        self.token += 1
        self.spans.append([-1, -1, self.length])
        if nothing:
            return
        if self.apart and entry.__class__ is tuple and len(entry) == 2:
            self._stand_apart(entry[0], token)
            return
        if self.place == 2:
            self._text([(" ", token, token)], len(self.chain.recipes))
        self.place = 1
        if self.items:
            for item, owner in self._items(0, [(entry, token)]):
                self._join(item, owner)
        else:
            self._join(entry, token)
        self.previous = token

    def _stand_apart(self, text: str, token: int) -> None:
        """Take a token that stands by itself: end the run before it, and begin the rules anew for the one behind."""
        rules = len(self.chain.recipes)
        self._end_items()
        self._end_stages(rules)
        self._text([(c, token, token) for c in (" " if self.place else "") + text], rules)
        self.items = self.chain.fresh_items()
        self.stages[:rules] = [recipe() for recipe in self.chain.recipes]
        self.place = 2

    def _items(self, at: int, items: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
        for stage in self.items[at:]:
            out: list[tuple[Any, int]] = []
            for item, owner in items:
                owed = stage.more if stage.__class__ is _Suffix else ""
                for made in stage.feed(item):
                    if owed and made.startswith(owed):
                        out.append(((owed,), self.previous))
                        made, owed = made[len(owed) :], ""
                    out.append((made, owner))
            items = out
        return items

    def _join(self, item: Any, owner: int) -> None:
        kind = self.chain.takes
        if kind == "bytes" or kind == "byte-level":
            data = item[0].encode() if item.__class__ is tuple else item
            self.pending += [[byte, owner] for byte in data]
            self._release(len(decode_utf8(bytes([byte for byte, _ in self.pending]), "replace")[1]))
        elif item.__class__ is int:
            self.pending.append([item, owner])
            if not self.hf:
                self._release(len(decode_utf8(bytes([byte for byte, _ in self.pending]), "replace")[1]))
        else:
            self._end_run()
            self._text([(c, owner, owner) for c in (item[0] if item.__class__ is tuple else item)])

    def _release(self, keep: int) -> None:
        """Turn all pending bytes but the last `keep` into characters."""
        done = self.pending[: len(self.pending) - keep]
        self.pending = self.pending[len(done) :]
        out: list[Owned] = []
        at = 0
        for size, text in subparts(bytes([byte for byte, _ in done]), self.errors):
            out += [(c, done[at][1], done[at + size - 1][1]) for c in text]
            at += size
        self._text(out)

    def _end_run(self) -> None:
        run = bytes([byte for byte, _ in self.pending])
        if self.hf and run:
            try:
                run.decode()
            except UnicodeError:
                pending, self.pending = self.pending, []
                self._text([(c, owner, owner) for byte, owner in pending for c in bad_byte(byte, self.errors)])
                return
        self._release(0)

    def _text(self, chars: list[Owned], first: int = 0) -> None:
        """Send characters through the stages from the one numbered `first` on."""
        for at in range(first, len(self.stages)):
            stage = self.stages[at]
            out: list[Owned] = []
            for char in chars:
                self.queues[at].append(char)
                out += self._settle(at, stage.feed(char[0]), len(_held_text(stage)))
            chars = out
        self._place(chars)

    def _settle(self, at: int, out: str, held: int) -> list[Owned]:
        """Give the text that a stage has put out to the owners of the characters that it has used up."""
        queue = self.queues[at]
        used = queue[: len(queue) - held]
        self.queues[at] = queue[len(used) :]
        same = 0
        while same < len(out) and same < len(used) and out[same] == used[same][0]:
            same += 1
        most = min(len(out), len(used)) - same
        after = 0  # what a rule leaves alone behind what it changes: " n't" becomes "n't"
        while after < most and out[len(out) - 1 - after] == used[len(used) - 1 - after][0]:
            after += 1
        changed = used[same : len(used) - after] or used[-1:]
        first, last = min([a for _, a, _ in changed], default=0), max([b for _, _, b in changed], default=0)
        middle = [(c, first, last) for c in out[same : len(out) - after]]
        return used[:same] + middle + used[len(used) - after :]

    def _place(self, chars: list[Owned]) -> None:
        for _, first, last in chars:
            for token in range(max(first, 0), last + 1):
                span = self.spans[token]
                if span[0] < 0:
                    span[0] = self.length
                span[1] = self.length + 1
            self.length += 1

    def flush(self) -> None:
        """End the text."""
        self._end_items()
        self._end_stages(len(self.stages))

    def _end_items(self) -> None:
        for at, stage in enumerate(self.items):
            for item, owner in self._items(at + 1, [(made, self.previous) for made in stage.flush()]):
                self._join(item, owner)
        self._end_run()

    def _end_stages(self, last: int) -> None:
        """End the stages in front of the one numbered `last`."""
        for at in range(last):
            self._text(self._settle(at, self.stages[at].flush(), 0), at + 1)

    def read(self) -> list[tuple[int, int]]:
        """Return the spans; a token without characters has an empty one where the text stood."""
        return [(first, last) if first >= 0 else (anchor, anchor) for first, last, anchor in self.spans]

    def save(self) -> Any:
        return (
            tuple([stage.save() for stage in self.stages]),
            tuple([tuple(queue) for queue in self.queues]),
            tuple([stage.save() for stage in self.items]),
            tuple([tuple(pair) for pair in self.pending]),
            (self.previous, self.token, self.length, self.place),
            tuple([tuple(span) for span in self.spans]),
        )

    def load(self, state: Any | None) -> None:
        stages, queues, items, pending, counts, spans = tuples(state)
        for stage, part in zip(self.stages, stages):
            stage.load(part)
        self.queues = [list(queue) for queue in queues]
        for stage, part in zip(self.items, items):
            stage.load(part)
        self.pending = [list(pair) for pair in pending]
        self.previous, self.token, self.length, self.place = counts
        self.spans = [list(span) for span in spans]
