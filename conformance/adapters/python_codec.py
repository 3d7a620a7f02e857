"""Python's incremental UTF-8 codec."""

import codecs
import platform

SYSTEM = f"codecs.getincrementaldecoder (CPython {platform.python_version()})"
PURPOSE = "bytes to text"


def adapter(case):
    options = case.get("options", {})
    if case["input"] != "bytes" or options.keys() - {"errors"}:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")(options.get("errors", "replace"))
    decoder.push, decoder.flush = decoder.decode, lambda: decoder.decode(b"", True)
    return decoder
