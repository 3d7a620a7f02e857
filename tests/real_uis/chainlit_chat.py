"""Chainlit with an OpenAI-compatible engine, as in its guide to streaming.

Run it as `ENGINE=… chainlit run chainlit_chat.py`; with `MODE=detok` it reads through ChatDeltas.
"""

import os

import chainlit as cl
from openai import AsyncOpenAI

from detok_py.integrations.openai import ChatDeltas

client = AsyncOpenAI(base_url=f"{os.environ['ENGINE']}/v1", api_key="none")


@cl.on_message
async def answer(message: cl.Message) -> None:
    events = await client.chat.completions.create(
        model="recite",
        messages=[{"role": "user", "content": message.content}],
        stream=True,
        temperature=0,
    )
    shown = cl.Message(content="")
    if os.environ.get("MODE") == "detok":
        async for delta in ChatDeltas(events, stop=["</s>"]):
            await shown.stream_token(delta.text)
    else:
        async for event in events:
            if token := event.choices[0].delta.content:
                await shown.stream_token(token)
    await shown.update()
