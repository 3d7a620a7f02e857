"""Bytes to text: boundary bytes in all combinations of three, mixed texts, every policy; a byte at
a time and cut at random.
"""

from say import Numbers, pieces_of, say

from detok_py import StreamingDetokenizer, last_complete_utf8_end, utf8_expected_len

say("lengths", [utf8_expected_len(byte) for byte in range(256)])

EDGES = list(bytes.fromhex("00 41 7F 80 8F 90 9F A0 BF C0 C2 DF E0 E1 ED EE EF F0 F1 F3 F4 F5 FF"))
for first in EDGES:
    row = []
    for second in EDGES:
        for third in EDGES:
            data = bytes([first, second, third])
            row.append("|".join(pieces_of(data)))
            row.append(last_complete_utf8_end(data))
    say(first, row)


# A sample of three and four bytes that are nearly characters; script_of_all_pairs.py has all of one
# byte and of two.
numbers = Numbers(3)
for size in (3, 4):
    for _ in range(40):
        row = []
        for _ in range(25):
            data = [numbers.choose([0xE0, 0xE4, 0xED, 0xEF, 0xF0, 0xF4, 192 + numbers.below(64)])]
            data += [
                128 + numbers.below(64) if numbers.below(8) else numbers.below(256)
                for _ in range(size - 1)
            ]
            row.append([bytes(data), "|".join(pieces_of(data))])
        say(size, row)

TEXT = "naïve 你好 👩‍🚀 e\u0301 \ufeff\ufffd नमस्ते שלום 🇩🇪\n".encode()
numbers = Numbers(7)
for _ in range(300):
    data = bytearray(TEXT)
    for _ in range(numbers.below(4)):
        data[numbers.below(len(data))] = numbers.choose(EDGES)
    for errors in ("replace", "ignore", "backslashreplace", "strict"):
        stream = StreamingDetokenizer(errors)
        pieces = []
        at = 0
        try:
            while at < len(data):
                size = 1 + numbers.below(5)
                pieces.append(stream.feed(bytes(data[at : at + size])))
                at += size
            pieces.append(stream.flush())
        except UnicodeError:
            pieces.append("UnicodeError")
        say(errors, pieces)
        if errors == "strict":
            say(stream.held)
