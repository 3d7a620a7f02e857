"""detok.v1: frames packed and unpacked, bad frames refused, and runs over a connection that is lost
many times.
"""

from say import Numbers, say

from detok_py.errors import RemoteProtocolError
from detok_py.protocol import wire
from detok_py.protocol.client import ClientSession
from detok_py.protocol.runs import Runs
from detok_py.protocol.server import ServerSession

numbers = Numbers(5)
for n in (0, 1, 127, 128, 300, 16383, 16384, 2**21, 2**31 - 1):
    say(n, wire.pack_number(n), wire.unpack_number(wire.pack_number(n), 0))
for _ in range(50):
    ids = [numbers.below(2 ** (1 + numbers.below(20))) for _ in range(numbers.below(9))]
    tokens = [(i, bytes([numbers.below(256) for _ in range(numbers.below(5))])) for i in ids]
    say(
        ids,
        wire.pack_ids(ids),
        wire.unpack_ids(wire.pack_ids(ids)),
        wire.pack_tokens(tokens),
        wire.unpack_tokens(wire.pack_tokens(tokens)),
    )
for _ in range(300):
    frame = bytes([numbers.below(5)] + [numbers.below(256) for _ in range(numbers.below(7))])
    try:
        say(frame, wire.read_data(frame))
    except RemoteProtocolError as error:
        say(frame, error.code, str(error))
for frame in (
    "",
    "{",
    "[]",
    "null",
    '{"type":1}',
    '{"type":"ping"}',
    '{"type":"ack","n":3}',
    "[" * 100,
    '{"a":1}',
    '{"type":"x","n":NaN}',
):
    try:
        say(sorted(wire.read_message(frame).keys()))
    except RemoteProtocolError as error:
        say(frame, error.code)

for text in (
    r"\ud83d\ude00", r"\uD83D\uDE00\u00e9", r"\\ud83d", r"\\\ud83d\ude00\n\u0041\"", r"\u4f60\ud7ff\ue000",
    r"\ud83d", r"\ude00", r"\ud83d\u0041",
    r"\ud83dx\ude00", r"\ud83d\n\ude00", r"\ud83d\ud83d\ude00", r"\ud83d\\ude00", r"\ud83", r"\udzzz",
):  # fmt: skip
    try:
        say(text, wire.read_message('{"type":"notice","' + text + '":["' + text + '"]}'))
    except RemoteProtocolError as error:
        say(text, error.code)

HELLO = {"engine": {"name": "test"}, "vocabulary": None}
for data in ("bytes", "ids", "both"):
    for _ in range(8):
        store = Runs(window={"bytes": 64, "tokens": 16})
        client = ClientSession(ack_every=5, max_attempts=1000)
        client.generate(prompt="go", want=data, run_id="run-0000000000000000")
        log = []
        run = None
        left = 40
        for _ in range(60):  # connections
            server = ServerSession(store, HELLO)
            client.opened()
            for _ in range(2 + numbers.below(6)):  # turns before the line is cut
                for frame in server.frames():
                    log += [
                        [type(event).__name__] + list(event)[:2]
                        for event in client.receive(frame)
                        if type(event).__name__ not in ("Hello", "Started")
                    ]
                for frame in client.frames():
                    for word, its in server.receive(frame):
                        if word == "generate":
                            run = its
                            run.log.start(data)
                while run is not None and left and run.reader.has_credit and numbers.below(3):
                    left -= 1
                    if data == "bytes":
                        run.log.add_bytes(bytes([left, 200]))
                    elif data == "ids":
                        run.log.add_ids([left, 1000 + left])
                    else:
                        run.log.add_tokens([(left, bytes([left]))])
                    if not left:
                        run.log.finish("eos")
            if client.state in ("finished", "failed"):
                break
            server.lost(1006, 0.0)
            client.lost(1006, 0.5)
        say(data, client.state, client.position, log)
