from pyscript import fetch, sync

import detok_py

__export__ = ["decode"]


async def decode(url):
    decoder = detok_py.StreamingDetokenizer()
    reader = (await fetch(url)).body.getReader()
    while not (part := await reader.read()).done:
        sync.show(decoder.feed(part.value.to_bytes()))
    return decoder.flush()
