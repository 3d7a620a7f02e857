"""The inbox: bytes that are given in a buffer, in a file or in hex, and the frames of a batch."""

from detok_py.page import inbox as inbox_module
from detok_py.page.inbox import given_bytes, inbox, read_from_file, unpack_batch


def test_a_batch_holds_any_number_of_frames():
    batch = b""
    frames = ['{"type":"pong"}', b"", b"\x00\xf0\x9f", "ü", b"x" * 70_000]
    for frame in frames:
        data = frame.encode() if isinstance(frame, str) else frame
        batch += bytes([isinstance(frame, bytes)]) + len(data).to_bytes(4, "little") + data
    assert unpack_batch(batch) == frames


def test_the_inbox_grows_and_never_shrinks():
    size = len(inbox())
    assert len(inbox(size + 1)) > size
    assert inbox(10) is inbox()


def test_bytes_are_given_in_the_buffer_or_in_hex():
    inbox(3)[:3] = b"\x00\xf0\xff"
    assert given_bytes(3) == b"\x00\xf0\xff"
    assert given_bytes("00f0ff") == b"\x00\xf0\xff"
    assert given_bytes(0) == given_bytes("") == b""
    given = given_bytes(3)
    inbox()[:3] = b"xyz"
    assert given == b"\x00\xf0\xff"


def test_a_buffer_that_is_too_small_is_replaced_before_it_is_read():
    size = len(inbox()) + 1
    assert len(given_bytes(size)) == size


def test_where_memory_has_no_view_the_bytes_are_in_a_file(tmp_path, monkeypatch):
    path = tmp_path / "inbox"
    path.write_bytes(b"first")
    monkeypatch.setattr(inbox_module, "_file", None)
    read_from_file(str(path))
    assert given_bytes(5) == b"first"
    path.write_bytes(b"then")
    assert given_bytes(4) == b"then"
    assert given_bytes("61") == b"a"
    inbox_module._file.close()
