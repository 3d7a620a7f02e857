"""Find stops, tags and artifacts in the text of one channel.

An artifact is a marker of a chat template, such as `<|im_end|>`, that an engine leaves at an end of
the answer. It is dropped at both ends of the text; elsewhere it is text. In: text, cut anywhere.
Out: how many characters at its end must wait, and which part of its beginning is certain. Held:
nothing.
"""

from typing import Any, Sequence

from .stage import common
from .word_search import EDGE, KEPT, LEAD, PASSIVE, STOP, WordSearch

# Artifacts: markers that engines let through at the ends of an answer, from the chat templates of
# Qwen and other ChatML models, Llama 2 to 4, Phi, Gemma 2 to 4, DeepSeek, Cohere, gpt-oss.
_CLOSING = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>", "<|return|>", "<|eot|>",
    "<end_of_turn>", "<turn|>", "<eos>", "</s>", "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|END_RESPONSE|>",
)  # fmt: skip
_OPENING = (
    "<|im_start|>", "<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>", "<|begin_of_text|>", "<|assistant|>",
    "<start_of_turn>model", "<|turn>model", "<bos>", "<｜begin▁of▁sentence｜>", "<｜Assistant｜>",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|START_RESPONSE|>", "<|start|>assistant<|channel|>final<|message|>",
)  # fmt: skip
ARTIFACTS = tuple(
    [marker + newlines for marker in _CLOSING + _OPENING for newlines in ("", "\n", "\n\n")]
)

MAX_ARTIFACTS = 4  # how many are dropped at each end, which limits the held text
_MAX_MEMO = 4096  # entries in the memo of a search


class ArtifactSearch(WordSearch):
    """A search for stops and tags that also finds artifacts at both ends of a text.

    `edges` are the artifacts; `leads` are the open tags that are dropped once at the beginning.
    """

    def __init__(self, words: Sequence[tuple[Any, str]]) -> None:
        super().__init__(words)
        self.edges: list[Any] = [word for word, kind in words if kind == EDGE]
        self.leads: list[Any] = [word for word, kind in words if kind == LEAD]
        self._last = frozenset([word[-1] for word in self.edges])
        self._chains: dict[int, list[tuple[int, int]]] = {0: []}
        self._memo: dict[Any, Any] = {}

    def artifacts(
        self, text: str, at_end: bool, most: int = MAX_ARTIFACTS, lead: bool = True
    ) -> int:
        """Return how many characters at the start or end of `text` are artifacts: at most `most`
        artifacts, as many characters as possible. At the start, with `lead`, one of them can be the
        repeated open tag.
        """
        best = 0
        if most and text and (text[-1] in self._last if at_end else text[0] in self.first):
            for word in self.edges if at_end or not lead else self.edges + self.leads:
                if text.endswith(word) if at_end else text.startswith(word):
                    rest = text[: -len(word)] if at_end else text[len(word) :]
                    more = self.artifacts(rest, at_end, most - 1, lead and word not in self.leads)
                    best = max(best, len(word) + more)
        return best

    def trim(self, text: str, start: bool, end: bool) -> str:
        """Return `text` without the artifacts at its start, without those at its end."""
        if start:
            text = text[self.artifacts(text, False) :]
        return text[: len(text) - self.artifacts(text, True)] if end else text

    def _chain(self, state: int) -> list[tuple[int, int]]:
        """Return (length, state) of the ends of the text that have begun a word and that artifacts
        make a difference to: an artifact begins with the end, or may stand before it.

        Other ends count only by their length, so a stop that overlaps itself a thousand times costs
        no more than one that doesn't.
        """
        path = []
        while state not in self._chains:
            path.append(state)
            state = self._failure[state]
        chain = self._chains[state]
        for state in reversed(path):
            depth = self._depth[state]
            text = self._prefix_of[state][0][0][:depth]
            kept = [(depth, state)]
            for shorter, node in chain:
                if self._begins(node, EDGE) or self._may_end(text[: depth - shorter]):
                    kept.append((shorter, node))
            chain = self._chains[state] = kept
        return chain

    def _begins(self, state: int, wanted: str) -> bool:
        return any(kind == wanted for kind, _ in self._begun_in(state))

    def _may_end(self, text: str) -> bool:
        """Say whether a text that ends in `text` may end in an artifact."""
        return any(text.endswith(edge) or edge.endswith(text) for edge in self.edges)

    def held_at_end(self, state: int, text: str, no_stop: int) -> int:
        """Return how many characters at the end of `text`, which has led to `state`, must wait."""
        longest = self.held_length(state, no_stop)
        if not self.edges or not state:
            return longest
        # The most that could wait: a prefix of a word, and whole artifacts before it.
        chain = self._chain(state)
        reach = max([depth + self.artifacts(text[:-depth], True) for depth, _ in chain])
        tail = text[-max(reach, longest) :]
        key = (state, tail, no_stop)
        known: int | None = self._memo.get(key)
        if known is None:
            known = max(min(longest, len(tail)), self.artifacts(tail, True))
            for depth, node in chain:
                for kind, words in self._begun_in(node):
                    if kind in (STOP, EDGE):
                        known = self._longest_wait(state, depth, kind, words, tail, known, no_stop)
            self._remember(key, known)
        return known

    def _longest_wait(
        self,
        state: int,
        depth: int,
        kind: str,
        words: list[Any],
        tail: str,
        best: int,
        no_stop: int,
    ) -> int:
        """Return how many characters of `tail` wait for one of `words`, of which `depth` characters
        have come, and for the artifacts before it: `best` if that is more.
        """
        waits = depth + self.artifacts(tail[:-depth], True) if kind == STOP else 0
        for word in words:
            if kind == EDGE:
                rest = word[depth:]
                waits = self.artifacts(tail + rest, True) - len(rest)
            elif waits <= best:
                break
            if best < waits <= len(tail) and kind == self.match_kind(
                state, depth, word, kind, no_stop
            ):
                best = waits
        return best

    def certain_start(self, state: int, text: str, no_stop: int = 0) -> tuple[str, int]:
        """Return the part of a text's beginning that is certain to be shown, and the length of the
        artifacts before it, -1 if that can still change.
        """
        key = (state, text, no_stop, LEAD)
        known = self._memo.get(key)
        if known is None:
            lead = self.artifacts(text, False)
            is_open = lead == len(text)
            certain = self.trim(text, True, True)
            for depth, kind, words in self.prefixes(state):
                for word in words if depth <= len(text) else ():
                    if is_open and not certain:
                        break  # no other word can change that
                    outcome = self.match_kind(state, depth, word, kind, no_stop)
                    if not outcome:
                        continue
                    passive = outcome in PASSIVE
                    whole = text + word[depth:] if passive or outcome == KEPT else text[:-depth]
                    begin = self.artifacts(whole, False)
                    is_open = is_open or begin != lead
                    final = self.trim(whole[begin:], False, passive or outcome == STOP)
                    certain = certain[: common(certain, final)]
                    if not passive and outcome != KEPT:
                        break  # the other words leave the same text
            known = (certain, -1 if is_open else lead)
            self._remember(key, known)
        return known[0], known[1]

    def _remember(self, key: Any, value: Any) -> None:
        if len(self._memo) >= _MAX_MEMO:
            self._memo.clear()
        self._memo[key] = value
