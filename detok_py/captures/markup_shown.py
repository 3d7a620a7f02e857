"""Markup of models that stands in the text of a server: think tags, and tokens of turns.

In: the text. Out: a sentence on what should not be there, "" if there is nothing. Held: nothing.
"""

from .mojibake import QUOTES
from .sentence import CONTROL, listed

# Of turns, in ChatML, Llama, Gemma, DeepSeek, Phi and Command; those of harmony are a format's.
CONTROL_TOKENS = (
    "<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>",
    "<|end_header_id|>", "<|endoftext|>", "<|end_of_text|>", "<end_of_turn>", "<start_of_turn>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|user|>", "<|assistant|>",
    "<|END_OF_TURN_TOKEN|>",
)  # fmt: skip
END_OF_S = "</s>"  # elsewhere it is HTML's
OPEN, CLOSE = b"<think>", b"</think>"


def on_think_tags(said: bytes) -> str:
    """Return a sentence on reasoning that stands in the text; "" if none does."""
    if CLOSE in said and OPEN not in said.partition(CLOSE)[0] and b"`" + CLOSE not in said:
        return (
            "“</think>” is in the text without “<think>” before it: what is before it may be "
            "reasoning that the server did not take apart."
        )
    if said.strip().startswith(OPEN) and CLOSE in said:
        return "Its reasoning is in the text, between “<think>” and “</think>”: the server did not take it apart."
    return ""


def on_control_tokens(said: bytes) -> str:
    """Return a sentence on tokens of turns that stand in the text; "" if there are none, or if all
    of them are quoted or in code, where they may be meant.
    """
    if not any(token.encode() in said for token in CONTROL_TOKENS + (END_OF_S,)):
        return ""
    ends = said.strip().endswith(END_OF_S.encode()) and b"<s>" not in said
    found = [END_OF_S] if ends else []
    parts = said.decode().split("```")
    for line in "\n".join(parts[::2]).split("\n"):
        bare = "".join(line.split("`")[::2])
        for token in CONTROL_TOKENS:
            befores = bare.split(token)[:-1]
            if token not in found and any(one[-1:] not in tuple(QUOTES) for one in befores):
                found.append(token)
    if not found:
        return ""
    named = listed([f"“{token}”" for token in found])
    return (
        f"{CONTROL}: {named}. The server did not stop there "
        "or take them away, or the model wrote them letter by letter."
    )
