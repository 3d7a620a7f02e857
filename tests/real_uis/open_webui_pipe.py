"""A function for Open WebUI ("pipe"), which reads an OpenAI-compatible engine through
ChatDeltas.
"""

import os
from collections.abc import Iterator
from typing import Any

from openai import OpenAI

from detok_py.integrations.openai import ChatDeltas


class Pipe:
    def pipe(self, body: dict[str, Any]) -> Iterator[str]:
        client = OpenAI(base_url=f"{os.environ['ENGINE']}/v1", api_key="none")
        events = client.chat.completions.create(
            model="recite", messages=body["messages"], stream=True, temperature=0
        )
        for delta in ChatDeltas(events, stop=["</s>"]):
            yield delta.text
