from pyscript import document, fetch

import detok_py

content = document.getElementById("content")
decoder = detok_py.StreamingDetokenizer()
reader = (await fetch("recorded.txt")).body.getReader()
while not (part := await reader.read()).done:
    content.append(decoder.feed(part.value.to_bytes()))
content.append(decoder.flush())
document.getElementById("status").textContent = "Finished."
