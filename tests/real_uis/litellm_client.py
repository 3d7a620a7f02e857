"""Asks an OpenAI-compatible server with LiteLLM, as `litellm_client.py URL PROMPT…`.

Out: for each prompt a JSON line with what LiteLLM made of the streamed answer and of the whole one,
and at the end one with the error of a model that is not there.
"""

import json
import os
import sys
from typing import Any

# Else it fetches the prices of models.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

URL, *PROMPTS = sys.argv[1:]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]


def ask(prompt: str, model: str = "recite", **more: Any) -> Any:
    return litellm.completion(
        model=f"openai/{model}",
        messages=[{"role": "user", "content": prompt}],
        api_base=f"{URL}/v1",
        api_key="any",
        temperature=0,
        tools=TOOLS,
        **more,
    )


def said(answer: Any) -> dict[str, Any]:
    choice = answer.choices[0]
    calls = choice.message.tool_calls or []
    return {
        "text": choice.message.content or "",
        "reasoning": getattr(choice.message, "reasoning_content", None) or "",
        "calls": [[call.function.name, json.loads(call.function.arguments)] for call in calls],
        "finish": choice.finish_reason,
    }


for prompt in PROMPTS:
    streamed = litellm.stream_chunk_builder(list(ask(prompt, stream=True)))
    print(json.dumps([said(streamed), said(ask(prompt))]))
try:
    ask("hi", "no-such-model", num_retries=0)
except litellm.NotFoundError as error:
    print(json.dumps([type(error).__name__, error.status_code]))
