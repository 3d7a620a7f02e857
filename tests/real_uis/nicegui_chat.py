"""NiceGUI's chat elements with an OpenAI-compatible engine, as in its example of a chat with an AI.

Run it as `nicegui_chat.py PORT ENGINE`. `/client` reads the engine with the `openai` package,
`/detok` through ChatDeltas.
"""

import sys
from collections.abc import AsyncIterator, Callable

from nicegui import ui
from openai import AsyncOpenAI

from detok_py.integrations.openai import ChatDeltas

port, engine = int(sys.argv[1]), sys.argv[2]
client = AsyncOpenAI(base_url=f"{engine}/v1", api_key="none")


async def with_client(prompt: str) -> AsyncIterator[str]:
    async for event in await client.chat.completions.create(
        model="recite", messages=[{"role": "user", "content": prompt}], stream=True, temperature=0
    ):
        yield event.choices[0].delta.content or ""


async def with_detok(prompt: str) -> AsyncIterator[str]:
    events = await client.chat.completions.create(
        model="recite", messages=[{"role": "user", "content": prompt}], stream=True, temperature=0
    )
    async for delta in ChatDeltas(events, stop=["</s>"]):
        yield delta.text


def chat(answer: Callable[[str], AsyncIterator[str]]) -> None:
    async def send() -> None:
        question, field.value = field.value, ""
        with messages:
            ui.chat_message(text=question, name="You", sent=True)
            with ui.chat_message(name="Bot"):
                shown = ui.markdown("")
        async for text in answer(question):
            shown.content += text

    messages = ui.column().classes("w-full")
    field = ui.input(placeholder="message").on("keydown.enter", send).classes("w-full")


@ui.page("/client")
def page_with_client() -> None:
    chat(with_client)


@ui.page("/detok")
def page_with_detok() -> None:
    chat(with_detok)


# By default a page that does not answer for three seconds is taken for gone, as on a busy machine.
ui.run(
    host="127.0.0.1",
    port=port,
    reload=False,
    show=False,
    show_welcome_message=False,
    reconnect_timeout=60,
)
