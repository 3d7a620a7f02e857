"""`codecs.utf_8_decode` for MicroPython, whose own `bytes.decode` knows no error policy and is not
strict about what UTF-8 is.

Same result as CPython's function, errors by maximal subparts (Unicode 3.9, tables 3-7 and 3-8),
with one difference that callers allow for: `ED` followed by A0..BF is an error at once, where
CPython waits for a third byte.
"""


def utf_8_decode(data, errors="strict", final=False):
    """Return the text of `data` and how many bytes it took: all of them when `final`, else all but
    an unfinished character.
    """
    data = bytes(data)
    size = len(data)
    text = []
    begin = 0
    at = 0
    while at < size:
        lead = data[at]
        if lead < 0x80:
            at += 1
            continue
        want = 0 if lead < 0xC2 or lead > 0xF4 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        end = at + 1
        while end < at + want and end < size and low <= data[end] <= high:
            end += 1
            low = 0x80
            high = 0xBF
        if end == at + want:
            at = end
            continue
        if want and end == size and not final:
            break
        if begin < at:
            text.append(str(data[begin:at], "utf-8"))
        if errors == "replace":
            text.append("\ufffd")
        elif errors == "backslashreplace":
            for byte in data[at:end]:
                text.append(f"\\x{byte:02x}")
        elif errors == "strict":
            reason = (
                "invalid start byte"
                if not want
                else "unexpected end of data"
                if end == size
                else "invalid continuation byte"
            )
            raise UnicodeDecodeError("utf-8", data, at, end, reason)
        elif errors != "ignore":
            raise LookupError("unknown error handler name " + repr(errors))
        at = end
        begin = end
    if begin < at:
        text.append(str(data[begin:at], "utf-8"))
    return "".join(text), at
