"""marimo's chat element with an OpenAI-compatible engine, as in its guide to custom models.

Run it as `ENGINE=… marimo run marimo_chat.py`; with `MODE=detok` it reads through ChatDeltas. Its
own `mo.ai.llm.openai` always sends a system message, which the reciting model does not know.
"""

import marimo

app = marimo.App()


@app.cell
def _():
    import os
    from collections.abc import Iterator
    from typing import Any

    import marimo as mo
    from openai import OpenAI

    from detok_py.integrations.openai import ChatDeltas

    client = OpenAI(base_url=f"{os.environ['ENGINE']}/v1", api_key="none")

    def answer(messages: Any, config: Any) -> Iterator[str]:
        events = client.chat.completions.create(
            model="recite",
            messages=[{"role": "user", "content": messages[-1].content}],
            stream=True,
            temperature=0,
        )
        if os.environ.get("MODE") == "detok":
            for delta in ChatDeltas(events, stop=["</s>"]):
                yield delta.text
        else:
            for event in events:
                yield event.choices[0].delta.content or ""

    mo.ui.chat(answer)


if __name__ == "__main__":
    app.run()
