"""tools/echo_server.py, with which conformance suites test the bridge's WebSockets."""

import subprocess
import sys
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

TOOL = Path(__file__).resolve().parents[2] / "tools" / "echo_server.py"


@pytest.fixture(scope="module")
def address():
    process = subprocess.Popen(
        [sys.executable, str(TOOL)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.mark.parametrize(
    "message", ["", "né 👩‍🚀", b"", b"\xf0\x9f", ["frag", "ments of ", "a text"]]
)
def test_messages_are_echoed(address, message):
    with connect(address) as ws:
        ws.send(message)
        assert ws.recv() == ("".join(message) if isinstance(message, list) else message)


def test_a_frame_with_a_reserved_bit_is_closed_with_1002(address):
    with connect(address) as ws:
        ws.socket.sendall(bytes([0xC1, 0x80, 0, 0, 0, 0]))
        with pytest.raises(ConnectionClosed):
            ws.recv()
        assert ws.close_code == 1002
