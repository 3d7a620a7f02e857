"""Write the samples that the page offers: `python tools/make_samples.py`.

Out: web/demo/samples/, with samples.json: [{"file", "title", "about"}]. They are made up, in the
shapes that servers send; nothing in them was recorded. tests/captures/test_samples.py says what the
page must find in each.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "web" / "demo" / "samples"
HELLO = "Guten Morgen, schöne Grüße! 早上好, and a coffee ☕ for the astronaut 👩‍🚀."
CAFE = "Voilà: naïve café, crème brûlée, déjà vu — 10 €."
SUNNY = "Sunny ☀️ in Zürich, 18 °C. 東京は晴れです 🌸 and 서울은 맑아요."
MISREAD = "cp437"  # what a Windows console reads as
HARMONY = (
    "<|channel|>·analysis·<|message|>·Need· the· weather· in· Zürich·.·<|end|>·<|start|>·assistant"
    "·<|channel|>·comment·ary·<|message|>·Let· me· look· ☀️·.·<|end|>·<|start|>·assistant"
    "·<|channel|>·comment·ary· to·=functions·.weather· <|constrain|>·json·<|message|>"
    '·{"·city·":"·Zürich·"}·<|call|>'
)
SPLIT = "ßç"  # letters of two bytes that are two tokens


def pieces(text: str) -> list[bytes]:
    """Cut a text as a tokenizer of bytes does: words, and pieces of other characters."""
    out: list[bytes] = []
    for word in text.replace(" ", "\0 ").split("\0"):
        for letter in word:
            data = letter.encode()
            if len(data) > 2 or letter in SPLIT:
                out += [data[: len(data) // 2], data[len(data) // 2 :]]
            elif out and letter != " " and out[-1][-1] < 0x80:
                out[-1] += data
            else:
                out.append(data)
    return out


def words(text: str) -> list[str]:
    """Cut a text before its spaces."""
    return text.replace(" ", "\0 ").split("\0")


def sse(values: list[Any], done: bool = True) -> str:
    """Return values as server-sent events."""
    lines = [f"data: {json.dumps(value, ensure_ascii=False)}\n\n" for value in values]
    return "".join(lines) + ("data: [DONE]\n\n" if done else "")


def openai(model: str, deltas: list[dict[str, Any]], **more: Any) -> list[Any]:
    """Return deltas as the chunks of a chat completion."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return [{**base, **more, "choices": [choice]} for choice in choices]


def llama_cpp() -> bytes:
    """The bytes of each token stand in an event of its own, also halves of characters."""
    out = b""
    for data in pieces(HELLO):
        text = data.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        out += b'data: {"content":"' + text + b'","multimodal":false,"slot_id":0,"stop":false}\n\n'
    end = {"content": "", "slot_id": 0, "stop": True, "stopped_eos": True, "model": "sample.gguf"}
    return out + sse([end], done=False).encode()


def har() -> bytes:
    """A chat through a proxy that decodes each chunk of the network, and one without it."""
    right = [{"content": word} for word in words(SUNNY)]
    seen = SUNNY.replace("ü", "\ufffd" * 2).replace("晴", "\ufffd" * 3)  # between two chunks
    broken = openai("sample-7b", [{"content": word} for word in words(seen)])
    usage = {"completion_tokens": len(broken)}  # each event has one
    broken.append({**broken[0], "choices": [], "usage": usage})
    entries = [
        entry("https://chat.example/api/chat", {"prompt": "weather"}),
        entry("https://chat.example/v1/chat/completions", broken),
        entry("http://127.0.0.1:8000/v1/chat/completions", openai("sample-7b", right)),
    ]
    creator = {"name": "detok", "version": "1"}
    value = {"log": {"version": "1.2", "creator": creator, "entries": entries}}
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def entry(url: str, body: Any) -> dict[str, Any]:
    """Return an entry of a HAR file: events for a list, else JSON."""
    events = isinstance(body, list)
    content = {
        "mimeType": "text/event-stream" if events else "application/json",
        "text": sse(body) if events else json.dumps(body),
    }
    request = {"method": "POST", "url": url}
    return {"request": request, "response": {"status": 200, "content": content}}


def console() -> bytes:
    """UTF-8 that a console has read in its own code page."""
    deltas = [{"content": word} for word in words(CAFE)]
    return sse(openai("sample-7b", deltas)).encode().decode(MISREAD).encode()


def vllm() -> bytes:
    """The bytes of the tokens are right, and the text beside them was decoded token by token."""
    deltas, logprobs = [], []
    for data in pieces("Grüezi, ça va ? 你好 🚀"):
        text = data.decode(errors="replace")
        deltas.append({"content": text})
        logprobs.append({"token": text, "logprob": -0.1, "bytes": list(data), "top_logprobs": []})
    chunks = openai("sample-7b", deltas)
    for chunk, one in zip(chunks, logprobs, strict=False):
        chunk["choices"][0]["logprobs"] = {"content": [one]}
    return sse(chunks).encode()


def harmony() -> bytes:
    """What gpt-oss writes, as a server sends it that leaves it as it is."""
    base = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "gpt-oss-20b"}
    said = HARMONY.split("·")
    values = [{**base, "choices": [{"index": 0, "text": text}]} for text in said]
    values.append({**base, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    return sse(values).encode()


def ollama() -> bytes:
    """An answer with times, in which all is whole."""
    said = [("thinking", word) for word in words("They greet me in four languages.")]
    said += [("content", word) for word in words("Bonjour ! Добрий день, こんにちは 👋🏽 مرحبا.")]
    lines = []
    for n, (field, text) in enumerate(said):
        at = f"2026-11-20T10:00:{n * 70 // 1000:02}.{n * 70 % 1000:03}Z"
        message = {"role": "assistant", "content": "", field: text}
        lines.append({"model": "qwen3", "created_at": at, "message": message, "done": False})
    end = {"role": "assistant", "content": ""}
    last = lines[-1]["created_at"]
    lines.append({"model": "qwen3", "created_at": last, "message": end, "done": True, "done_reason": "stop"})  # fmt: skip
    return "".join([json.dumps(line, ensure_ascii=False) + "\n" for line in lines]).encode()


SAMPLES = (
    ("llama-cpp.sse", llama_cpp, "Broken llama.cpp stream", "Each event has the bytes of one token, sometimes half a character."),
    ("proxy.har", har, "HAR, a proxy’s fault", "Saved from developer tools: the same answer with and without the proxy."),
    ("vllm-logprobs.sse", vllm, "vLLM with �", "The log probabilities beside it have the right bytes."),
    ("console.sse", console, "curl in a console", "UTF-8 that was read in another code page."),
    ("gpt-oss.sse", harmony, "gpt-oss in harmony", "Reasoning, an answer and a call, with their markup."),
    ("ollama.ndjson", ollama, "All whole", "Ollama, with thinking and times. Nothing in it is broken."),
)  # fmt: skip


def samples() -> dict[str, bytes]:
    """Return the files by name, the list of them included."""
    out = {file: make() for file, make, _, _ in SAMPLES}
    listed = [{"file": file, "title": title, "about": about} for file, _, title, about in SAMPLES]
    out["samples.json"] = (json.dumps(listed, ensure_ascii=False, indent=1) + "\n").encode()
    return out


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in samples().items():
        (FOLDER / name).write_bytes(data)
        print(f"{name}: {len(data)} bytes")
