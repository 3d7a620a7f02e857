"""What an event of a server says in each channel, token by token, and which server it comes from.

In: the values of events, in order. Out: `Part`s, the server's name, why the stream ended. Held: how
many tokens and how much text a server has sent that repeats both in each event.

The text, the ids and the finish reason are read by the table that the bridge's engines use
(protocol/event_shapes.py); here are reasoning, tool calls and the tokens of log probabilities.
"""

import json
from collections import namedtuple
from typing import Any

from ..protocol.event_shapes import find, read_bytes, read_event, read_ids

# channel: "content", "reasoning" or "tool_call" · text: what the event says, with marked halves ·
# tokens: (id or None, bytes or None) each, [] if the event does not say them
Part = namedtuple("Part", ["channel", "text", "tokens"])

CONTENT, REASONING, TOOL_CALL = "content", "reasoning", "tool_call"

_REASONING = (
    "choices.0.delta.reasoning_content choices.0.delta.reasoning choices.0.message.reasoning_content "
    "choices.0.message.reasoning message.thinking thinking delta.thinking"
)
_CALLS = "choices.0.delta.tool_calls choices.0.message.tool_calls message.tool_calls"
_TOKENS = "choices.0.logprobs.content completion_probabilities logprobs.content logprobs"
# An event's "type" has one of these words, and "delta" is the text.
_DELTAS = (
    ("reasoning", REASONING),
    ("function_call_arguments", TOOL_CALL),
    ("tool-input", TOOL_CALL),
    ("mcp_call_arguments", TOOL_CALL),
)
# How an older llama-server says why it ended.
_STOPPED = (("stopped_eos", "eos"), ("stopped_limit", "length"), ("stopped_word", "stop"))


class Server:
    """Reads the events of one stream.

    >>> server = Server()
    >>> server.read({"choices": [{"delta": {"reasoning_content": "hm", "content": "a"}}]})
    [Part(channel='reasoning', text='hm', tokens=[]), Part(channel='content', text='a', tokens=[])]
    >>> server.name
    'OpenAI-compatible server, chat completions'
    """

    def __init__(self) -> None:
        self.name = ""
        self.model: str | None = None
        self.finish: str | None = None
        self.error: str | None = None
        self._counted = 0
        self._sent = ""  # the text of a server that repeats it in each event
        self._channel = CONTENT
        self._certain = False

    def read(self, event: Any) -> Any:
        """Return what an event says; a sentence if it cannot be read; None if it says no text."""
        if not isinstance(event, dict):
            return "this event is not an object"
        self._learn_name(event)
        error = event.get("error")
        if error:
            message = find(event, "error.message") or error
            self.error = message if isinstance(message, str) else json.dumps(message)
            return None
        if event.get("type") in ("error", "response.failed"):
            self.error = str(find(event, "message response.error.message") or "the request failed")
            return None
        index = find(event, "choices.0.index")
        if index:
            return "choice " + str(index) + " is left out: only choice 0 is read"
        parts = self._reasoning(event) + self._content(event) + self._calls(event)
        tokens = self._tokens(event)
        if tokens and len(parts) == 1:
            parts = [Part(parts[0].channel, parts[0].text, tokens)]
        elif tokens and not parts:
            # The server holds text back; its tokens belong to what it says.
            parts = [Part(self._channel, "", tokens)]
        if parts:
            self._channel = parts[-1].channel
        return parts or None

    def _reasoning(self, event: Any) -> list[Any]:
        text = find(event, _REASONING)
        kind = str(event.get("type"))
        if isinstance(event.get("delta"), str):
            for word, channel in _DELTAS:
                if word in kind and kind[-5:] != ".done":
                    return [Part(channel, event["delta"], [])] if event["delta"] else []
        return [Part(REASONING, text, [])] if isinstance(text, str) and text else []

    def _content(self, event: Any) -> list[Any]:
        parts = find(event, "candidates.0.content.parts")
        if isinstance(parts, list):
            # Gemini's answers, thoughts and calls are parts of one list.
            said = read_event(event, self._counted)
            self.finish = said.finish or self.finish
            out = []
            for part in parts:
                if isinstance(part, dict) and isinstance(part.get("text"), str) and part["text"]:
                    out.append(
                        Part(REASONING if part.get("thought") else CONTENT, part["text"], [])
                    )
                elif isinstance(part, dict) and isinstance(part.get("functionCall"), dict):
                    out.append(Part(TOOL_CALL, _call(part["functionCall"]), []))
            return out
        stop = find(event, "delta.stop_reason response.status")
        if isinstance(stop, str) and stop not in ("in_progress", "queued"):
            self.finish = stop
        for name, reason in _STOPPED:
            if event.get(name) is True:
                self.finish = reason
        said = read_event(event, self._counted)
        if said is None:
            return []
        self._counted = max(self._counted, said.total or 0)
        self.finish = said.finish or self.finish
        # text-generation-inference also says the text of its end token.
        text = "" if find(event, "token.special") is True else said.text
        if "meta_info" in event and isinstance(event.get("text"), str):
            text = self._new_text(event["text"])
        tokens: list[Any] = [(i, None) for i in said.ids or []]
        return [Part(CONTENT, text, tokens)] if text or tokens else []

    def _new_text(self, text: str) -> str:
        """Return what is new in a text that repeats all before it."""
        same = 0
        while same < len(text) and text[same : same + 1] == self._sent[same : same + 1]:
            same += 1
        # What the server takes back cannot be taken back here: it is text that came.
        new = text[len(self._sent) :] if same == len(self._sent) else text[same:]
        self._sent = text
        return new

    def _calls(self, event: Any) -> list[Any]:
        calls = find(event, _CALLS)
        out = []
        for call in calls if isinstance(calls, list) else []:
            text = _call(call.get("function")) if isinstance(call, dict) else ""
            if text:
                out.append(Part(TOOL_CALL, text, []))
        begun = find(event, "content_block.name item.name")
        if isinstance(begun, str) and str(event.get("type"))[-5:] != ".done":
            out.append(Part(TOOL_CALL, begun, []))
        part = find(event, "delta.partial_json")
        if isinstance(part, str) and part:
            out.append(Part(TOOL_CALL, part, []))
        return out

    def _tokens(self, event: Any) -> list[Any]:
        """Return the tokens of an event, as its log probabilities and its ids say them."""
        given = find(event, _TOKENS)
        tokens = []
        for token in given if isinstance(given, list) else []:
            tokens.append(_token(token))
        names = find(event, "choices.0.logprobs.tokens")
        for name in names if isinstance(names, list) else []:
            tokens.append(_token({"token": name}))
        ids = read_ids(
            find(event, "choices.0.delta.token_ids choices.0.token_ids tokens output_ids")
        )
        one = find(event, "token.id")
        if type(one) is int and one >= 0:
            ids = [one]
        if tokens and all(token == (None, None) for token in tokens):
            tokens = []  # an older llama-server says only how likely pieces of text were
        if ids and "meta_info" in event:
            return []  # read_event has left out those that are repeated
        if ids and len(tokens) == len(ids):
            return [(i, tokens[n][1]) for n, i in enumerate(ids)]
        return tokens or [(i, None) for i in ids or []]

    def _learn_name(self, event: dict[str, Any]) -> None:
        model = find(event, "model response.model message.model modelVersion")
        if self.model is None and isinstance(model, str):
            self.model = model
        if not self._certain:
            name, self._certain = server_name(event)
            if name and (self._certain or not self.name):
                self.name = name


def server_name(event: dict[str, Any]) -> tuple[str, bool]:
    """Return which server sends such events, and whether that is certain.

    >>> server_name({"model": "m", "created_at": "2026-11-22", "response": "a", "done": False})
    ('Ollama, generate', True)
    >>> server_name({"usage": {}})
    ('', False)
    """
    kind = str(event.get("type"))
    if "candidates" in event:
        return "Gemini", True
    if kind[:9] == "response.":
        return "OpenAI, responses", True
    if kind in ("message_start", "content_block_start", "content_block_delta", "message_delta"):
        return "Anthropic, messages", True
    if "meta_info" in event or "output_ids" in event:
        return "SGLang, generate", True
    if isinstance(event.get("token"), dict) and "text" in event["token"]:
        return "text-generation-inference, generate", True
    if "created_at" in event and "done" in event:
        return "Ollama, " + ("chat" if "message" in event else "generate"), True
    if "content" in event and "stop" in event:
        if "slot_id" in event or "multimodal" in event or "stopped_eos" in event:
            return "llama-server before 2025, completion", True
        new = "tokens" in event or "stop_type" in event or "id_slot" in event or "index" in event
        return ("llama-server, completion" if new else "llama-server"), bool(new)
    if "choices" in event:
        return _openai_name(event)
    if kind in ("text-delta", "text-start", "reasoning-delta", "start-step"):
        return "AI SDK, UI messages", True
    return "", False


def _openai_name(event: dict[str, Any]) -> tuple[str, bool]:
    """Return the name of a server with OpenAI's interface, by the fields that only it adds."""
    chat = find(event, "choices.0.delta choices.0.message") is not None
    api = ", chat completions" if chat or "chat" in str(event.get("object")) else ", completions"
    print_ = str(event.get("system_fingerprint") or "")
    choice = find(event, "choices.0")
    choice = choice if isinstance(choice, dict) else {}
    if "matched_stop" in choice:
        return "SGLang" + api, True
    if print_ == "fp_ollama":
        return "Ollama" + api, True
    if "timings" in event or (print_[:1] == "b" and print_[1:2].isdigit()):
        return "llama-server" + api, True
    if "-sha-" in print_ or "-native" in print_:
        return "text-generation-inference" + api, True
    if {"token_ids", "stop_reason"} & set(choice) or "prompt_token_ids" in event:
        return "vLLM" + api, True
    if print_[:3] == "fp_" or "service_tier" in event:
        return "OpenAI" + api, True
    return "OpenAI-compatible server" + api, False


def _call(function: Any) -> str:
    """Return what a piece of a tool call says: the name, the arguments, or a part of them."""
    if not isinstance(function, dict):
        return ""
    arguments = function.get("arguments", function.get("args"))
    name = function.get("name")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return (name if isinstance(name, str) else "") + (arguments or "")


def _token(token: Any) -> tuple[Any, Any]:
    """Return the (id, bytes) of a token that has a log probability, None for what is not said."""
    if not isinstance(token, dict):
        return None, None
    ids = read_ids(token.get("id", token.get("token_id")))
    number = ids[0] if ids else None
    data = read_bytes([token["bytes"]]) if isinstance(token.get("bytes"), list) else None
    name = token.get("token")
    if not isinstance(name, str):
        return number, data
    if name[:9] == "token_id:" and name[9:].isdigit():
        return int(name[9:]), data
    if data is None and name[:6] == "bytes:":
        data = _escaped(name[6:])
    if data is None and "\ufffd" not in name:
        data = name.encode()
    return number, data


def _escaped(text: str) -> "bytes | None":
    r"""Return the bytes of a token name of OpenAI's completions.

    >>> _escaped(r"\xf0\x9f")
    b'\xf0\x9f'
    """
    try:
        return bytes([int(byte, 16) for byte in text.split("\\x")[1:]])
    except ValueError:
        return None
