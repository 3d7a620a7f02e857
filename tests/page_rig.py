"""A page's answer and a bridge's session, joined without a socket."""

import json
from collections.abc import Iterable
from typing import Any

from detok_py.decode.vocabulary import Vocabulary
from detok_py.page import answer
from detok_py.page.inbox import inbox
from detok_py.protocol.runs import Runs
from detok_py.protocol.server import ServerSession

TOKENS = [bytes([b]) for b in range(256)] + [
    b"<end>",
    "你".encode(),
    "你".encode()[:2],
    "好!".encode(),
]
END, NI, NI_BEGINS, HAO = 256, 257, 258, 259
VOCABULARY = Vocabulary.from_bytes(TOKENS, special_ids=[END], eos_ids=[END])


def plain(row: list[Any]) -> list[Any]:
    """A row with the text of its deltas in their place."""
    return [*row[:2], "".join([text for _, text, *_ in row[2]]), *row[3:]]


class Line:
    """A page's answer and a bridge's session, joined by a wire that keeps all that the page was
    told. The answer has details unless the request says otherwise.
    """

    def __init__(
        self,
        request: dict[str, Any] | None = None,
        vocabulary: Vocabulary | None = VOCABULARY,
        hello: dict[str, Any] | None = None,
    ) -> None:
        self.store = Runs()
        self.named = vocabulary
        self.hello = hello or {}
        request = {"prompt": "hi", "details": True} | (request or {})
        self.data = request.get("want") or ("both" if vocabulary else "bytes")
        self.page = answer.Answer(json.dumps(request))
        self.events: list[dict[str, Any]] = []
        self.fetches: list[dict[str, Any]] = []
        self.closed: list[Any] = []
        self.connect()

    def connect(self) -> None:
        hello: dict[str, Any] = {"engine": {"name": "test"}} | self.hello
        if self.named is not None:
            hello["vocabulary"] = {
                "sha256": self.named.sha256,
                "size": len(self.named),
                "url": "/vocabulary/x.detok",
            }
        self.server = ServerSession(self.store, hello)
        self.told(self.page.opened())

    def told(self, text: str) -> dict[str, Any]:
        outcome: dict[str, Any] = json.loads(text)
        self.events += outcome["events"]
        if "fetch" in outcome:
            self.fetches.append(outcome["fetch"])
        if "close" in outcome:
            self.closed.append(outcome["close"])
        for frame in outcome.get("send", []):
            self.server.receive(frame)
        return outcome

    def batch(self) -> dict[str, Any]:
        """All that the bridge has to send now, as one batch."""
        packed = b""
        for frame in self.server.frames():
            data = frame.encode() if isinstance(frame, str) else frame
            packed += bytes([isinstance(frame, bytes)]) + len(data).to_bytes(4, "little") + data
        return self.told(self.page.receive(fill(packed)))

    def start(self, start: str = "") -> Any:
        """Everything up to the first token; returns the log of the bridge's run."""
        self.batch()
        if self.named is not None:
            self.told(self.page.vocabulary(fill(self.named.pack())))
        self.batch()
        self.log.start(self.data, start)
        return self.log

    @property
    def log(self) -> Any:
        return self.server.run.log

    def hear(self, data: Iterable[int], end: str = "", *, start: str = "") -> "Line":
        """Get tokens by their ids, or bytes, as one batch. The run is started if it has not been,
        and ends for the reason `end`, if there is one. An unknown id has the bytes `?`.
        """
        if self.server.run is None:
            self.start(start)
        if self.data == "bytes":
            self.log.add_bytes(bytes(data))
        elif self.data == "ids":
            self.log.add_ids(list(data))
        else:
            known = self.named
            assert known is not None
            self.log.add_tokens([(i, known.token_bytes(i) if i in known else b"?") for i in data])
        if end:
            self.log.finish(end)
        self.batch()
        return self

    @property
    def rows(self) -> list[Any]:
        return [plain(row) for event in self.events for row in event.get("rows", [])]

    @property
    def deltas(self) -> list[Any]:
        """All deltas, those of the end included."""
        return [
            delta
            for event in self.events
            for row in [*event.get("rows", []), [None, "", event.get("deltas", [])]]
            for delta in row[2]
        ]

    @property
    def text(self) -> str:
        return "".join([text for _, text, *_ in self.deltas])

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]


def fill(data: bytes) -> int:
    inbox(len(data))[: len(data)] = data
    return len(data)
