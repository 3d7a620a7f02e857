"""Proxies between page and bridge that cut WebSockets: after any of the bridge's frames, which can
also be held back, or after any byte.

The bridge answers to its own address only, so Host and Origin are put right on the way.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Passes all on, byte for byte; `_stream` passes on what a WebSocket sends to the page."""

    def __init__(self, target: str) -> None:
        self.target = ("127.0.0.1", int(target.rpartition(":")[2]))
        self.open: set[socket.socket] = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End it with every connection."""
        hang_up(self.listener)
        self._end(*self.open)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.open.add(client)
                threading.Thread(target=self._up, args=(client,), daemon=True).start()

    def _up(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self.target)
        except OSError:  # the bridge is gone
            return self._end(client)
        self.open.add(server)
        threading.Thread(target=self._down, args=(server, client), daemon=True).start()
        ours, theirs = f"127.0.0.1:{self.port}".encode(), f"127.0.0.1:{self.target[1]}".encode()
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data.replace(ours, theirs) if b" HTTP/1.1\r\n" in data else data)
        self._end(client, server)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            data = server.recv(1 << 16)
            pass_on = self._stream if data.startswith(b"HTTP/1.1 101") else self._all
            pass_on(data, server, client)
        self._end(client, server)

    def _all(self, data: bytes, server: socket.socket, client: socket.socket) -> None:
        while data:
            client.sendall(data)
            data = server.recv(1 << 16)

    _stream = _all

    def _end(self, *sockets: socket.socket) -> None:
        for one in sockets:
            hang_up(one)
            self.open.discard(one)


class FrameProxy(Proxy):
    """`cuts` has, for each WebSocket to come, after how many of the bridge's frames it is ended;
    when it is used up: never.

    `frames` has how many frames each WebSocket let pass. Where they are set, a frame that ends with
    `stop_after` is the last until `go` is set, and one with `stop_before` in it waits for that. Of
    `instead`, the first is replaced by the second, which is as long.
    """

    def __init__(self, target: str) -> None:
        self.cuts: list[int] = []
        self.frames: list[int] = []
        self.stop_after = self.stop_before = b""
        self.instead = (b"", b"")
        self.go = threading.Event()
        super().__init__(target)

    def _stream(self, data: bytes, server: socket.socket, client: socket.socket) -> None:
        cut = self.cuts.pop(0) if self.cuts else None
        number = len(self.frames)
        self.frames.append(0)
        while b"\r\n\r\n" not in data:
            data += server.recv(1 << 16)
        end = data.index(b"\r\n\r\n") + 4
        client.sendall(data[:end])
        for frame in frames(data[end:], server):
            if self.stop_before and self.stop_before in frame:
                self.go.wait(60)
            client.sendall(frame.replace(*self.instead))
            self.frames[number] += 1
            if self.stop_after and frame.endswith(self.stop_after):
                self.go.wait(60)
            if self.frames[number] == cut:
                return


class CuttingProxy(Proxy):
    """`budgets` has, for each WebSocket to come, how many bytes it may send to the page before it
    is cut; when it is used up: as many as come. `cuts` counts.
    """

    def __init__(self, target: str) -> None:
        self.cuts = 0
        self.budgets: list[int] = []
        self.streams: list[tuple[socket.socket, socket.socket]] = []
        super().__init__(target)

    def cut(self) -> None:
        """End every WebSocket that is open now, in both directions."""
        streams, self.streams = self.streams, []
        self.cuts += len(streams)
        for pair in streams:
            self._end(*pair)

    def _stream(self, data: bytes, server: socket.socket, client: socket.socket) -> None:
        left = self.budgets.pop(0) if self.budgets else 1 << 60
        self.streams.append((server, client))
        while data and left > len(data):
            client.sendall(data)
            left -= len(data)
            data = server.recv(1 << 16)
        if data:
            client.sendall(data[:left])
            self.cuts += 1


def frames(data: bytes, source: socket.socket) -> Iterator[bytes]:
    """Yield a server's frames, whole (RFC 6455, 5.2: a server's frames have no mask)."""
    while True:
        while (size := frame_size(data)) is None or len(data) < size:
            more = source.recv(1 << 16)
            if not more:
                return
            data += more
        yield data[:size]
        data = data[size:]


def frame_size(data: bytes) -> int | None:
    if len(data) < 2:
        return None
    length = data[1] & 127
    head = 2 + {126: 2, 127: 8}.get(length, 0)
    if len(data) < head:
        return None
    return head + (int.from_bytes(data[2:head], "big") if head > 2 else length)


def hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
