"""What servers send, and what every reader gives of it: tests/vectors/servers.json."""

import json
from pathlib import Path

VECTORS = json.loads(
    (Path(__file__).parent / "vectors" / "servers.json").read_text(encoding="utf-8")
)["vectors"]


def body_of(vector):
    """Return the body of a vector as it is sent."""
    if vector["kind"] == "json":
        return json.dumps(vector["body"], ensure_ascii=False).encode()
    if vector["kind"] == "parts":
        return "".join(part + "\n" for part in vector["body"]).encode()
    lines = [json.dumps(value, ensure_ascii=False) for value in vector["body"]]
    if vector["kind"] == "lines":
        return "".join(line + "\n" for line in lines).encode()
    done = vector.get("done")
    lines += ["[DONE]" if done is True else done] if done else []
    return "".join(f"data: {line}\n\n" for line in lines).encode()
