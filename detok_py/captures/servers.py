"""What an event of a server says in each channel, token by token, and which server it comes from.

In: the values of events, in order. Out: `Part`s, the server's name, why the stream ended. Held: the
open tool call; for a server that repeats earlier text, the text and the number of tokens so far;
the whole text that a server sends at the end.

event_shapes.py reads each event, here as in the bridge. This file puts the parts in order, and
finds out which server sends them.
"""

from typing import Any, NamedTuple

from .alike import MARKER
from .event_shapes import Calls, find, read_event, without_last
from .parse import object_at, value_of_json

# channel: "content", "reasoning" or "tool_call" · text: what the event says, with marked halves ·
# tokens: (id or None, bytes or None) each, [] if the event has none
Part = NamedTuple("Part", [("channel", str), ("text", str), ("tokens", "list[Any]")])

# Servers whose `bytes` are the token's own, even if its `token` is U+FFFD.
RAW_BYTES = ("OpenAI,", "llama-server")
LOST = "\ufffd".encode()
# APIs whose streams may end without a word on it.
NO_END = (
    "(",
    "LangChain",
    "LangGraph",
    "LangServe",
    "Triton",
    "FastChat",
    "Amazon Bedrock, model",
    "vLLM, generate",
)

COMPATIBLE = "OpenAI-compatible server"
RESPONSES = "OpenAI, responses"
MODEL = (
    "model|response.model|message.model|session.model|response_metadata.model_name|modelVersion"
    "|response.modelId|model_name,model_id|model_version"
)
OTHER_CHOICES = "choices[index].index|candidates[index].index"
# What the names of OpenAI's own models begin with; other servers have gpt-oss.
OF_OPENAI = ("gpt-", "chatgpt-", "codex-", "o1", "o3", "o4", "ft:gpt-")

# Mistral pads its events with a random "p".
OF_MISTRAL = (
    "mistral-",
    "ministral-",
    "codestral-",
    "magistral-",
    "devstral-",
    "pixtral-",
    "open-mi",
)

OF_LINES = ("event", "chunk", "data", "payload")  # of a log's lines

# LangChain's messages with a tool's result.
OF_TOOL = (["tool"], ["ToolMessageChunk"])
CHANNELS = CONTENT, REASONING, TOOL_CALL = "content", "reasoning", "tool_call"
LEFT_OUT = " is left out: only choice 0 is read"
NEW, OLD = "new", "old"  # pieces, since the last whole text


class Server:
    """Reads the events of one stream. `path` is where the text of events of unknown shape is.

    >>> server = Server()
    >>> server.read({"choices": [{"delta": {"reasoning_content": "hm", "content": "a"}}]})
    [Part(channel='reasoning', text='hm', tokens=[]), Part(channel='content', text='a', tokens=[])]
    >>> server.name
    'OpenAI-compatible server, chat completions'
    """

    def __init__(self, path: str = "") -> None:
        self._path = path
        self.name: str = ""
        self.model: str | None = None
        self.finish: str | None = None
        self.error: str | None = None
        # How many tokens the server says it has made, 0 if it does not say.
        self.total: int = 0
        # Whether the stream has to say that it ends; whether it has said so.
        self.has_end: bool = False
        self.over: bool = False
        # The whole text of messages, as a server sends it after their pieces.
        self.all: str = ""
        self._calls = Calls()
        # The text so far of a server that may repeat it; whether it does, None if not known yet.
        self._sent: tuple[str, bool | None] = ("", None)
        self._channel = CONTENT
        # "" before the first text; NEW if there was some since the last whole text, OLD if not.
        self._pieces = ""
        self._certain = False
        self._left_out: dict[Any, bool] = {}  # choices, and whether they were told

    @property
    def repeats(self) -> bool:
        """Whether events repeat the text so far."""
        return self._sent[0] != "" and self._sent[1] is not False

    @property
    def broken_call(self) -> bool:
        """Whether the arguments of a tool call were not whole JSON."""
        return self._calls.broken

    def read(self, event: Any) -> Any:
        """Return the parts of an event; None if it has no text; a sentence if it cannot be read."""
        others = [str(index)[:9] for index in find(event, OTHER_CHOICES)]
        self._left_out.update({index: False for index in others if index not in self._left_out})
        if others and not find(event, "choices[!index]|candidates[!index]"):
            return None
        if self._path:
            text = "".join([one for one in find(event, self._path) if isinstance(one, str)])
            return [Part(CONTENT, text, [])] if text else None
        said = read_event(event, self.total, self._sent[0])
        inner = _logged_in(event) if said is None else None
        if inner is not None:
            return self.read(inner)
        if said is None:
            # LangGraph ends with null.
            known = event is None or isinstance(event, dict)
            return None if known else "this event is not an object"
        self._learn_name(event, said)
        if find(event, "type")[:1] in OF_TOOL:
            self.finish = None  # "tool_calls": the answer goes on
        self.error = said.error or self.error
        self.finish = said.finish or self.finish
        self.total = max(self.total, said.total or 0)
        if said.so_far is not None:
            repeats = self._sent[1]
            if repeats is None and self._sent[0] and said.text:
                repeats = len(said.text) < len(read_event(event, 0, "").text)
            self._sent = (said.so_far or self._sent[0], repeats)
        self.over = self.over or said.over
        self.has_end = self.has_end or not said.api.startswith(NO_END)
        # TGI may send it again with the token that ends the answer.
        again = said.all == self.all and self._pieces == OLD and not said.text
        self.all += "" if again else said.all
        calls = "".join([self._calls.feed(call) for call in said.calls])
        # Without pieces, the answer was not streamed.
        text = said.text if said.text or self._pieces else said.all
        if text[-1:] == "\0" and said.api == "Hugging Face chat-ui":
            text = without_last(text, "\0")  # with which chat-ui fills its events
        texts = ((REASONING, said.reasoning), (CONTENT, text), (TOOL_CALL, calls))
        parts = [Part(channel, text, []) for channel, text in texts if text]
        tokens = said.tokens
        if said.api == COMPATIBLE and not self.name.startswith(RAW_BYTES):
            # Some servers encode the token's text: a U+FFFD there stands for unknown bytes.
            tokens = [(i, None if data and LOST in data else data) for i, data in tokens]
        if said.finish and not text and all(_ends_answer(data) for _, data in tokens):
            tokens = []  # vLLM has the token that ended the answer in its log probabilities
        if tokens and len(parts) < 2:
            # A server that holds text back sends tokens alone; their text comes later.
            channel, text, _ = parts[0] if parts else (self._channel, "", [])
            parts = [Part(channel, text, tokens)]
        if parts:
            self._channel = parts[-1].channel
            self._pieces = NEW if text else self._pieces
        if said.all and self._pieces:
            self._pieces = OLD
        return parts or None

    def left_out(self) -> list[str]:
        """Return sentences on the choices that were first seen since the last call."""
        new = [index for index in self._left_out if not self._left_out[index]]
        self._left_out.update(dict.fromkeys(new, True))
        return ["choice " + index + LEFT_OUT for index in new]

    def read_same(self, same: Any) -> Any:
        """Do as `read`, for an event that differs from an earlier one only in its text."""
        kind = same.shape.kind
        if kind.channel is None:
            kind.channel = "" if self._path else self._channel_of(kind.value)
        elif kind.channel and not same.text:
            return None
        elif self.reads_text(kind):
            return [Part(kind.channel, same.text, [])]
        return self.read(same.whole())

    def reads_text(self, kind: Any) -> bool:
        """Return whether events of a kind are known to be text alone, and read them as such."""
        if not kind.channel:
            return False
        self._channel = kind.channel
        self._pieces = NEW if kind.channel == CONTENT else self._pieces
        return True

    def _channel_of(self, event: Any) -> str:
        """Return the channel of an event that has one text and nothing else; "" for others."""
        said = read_event(event, self.total, self._sent[0])
        if said is None or find(event, OTHER_CHOICES):
            return ""
        others = (said.calls, said.tokens, said.ids, said.finish, said.error, said.total, said.all)
        if any(others) or said.so_far is not None:
            return ""
        texts = ((REASONING, said.reasoning), (CONTENT, said.text))
        found = [channel for channel, text in texts if text]
        return found[0] if len(found) == 1 and MARKER in (said.reasoning, said.text) else ""

    def begin(self, event: Any) -> None:
        """Begin another answer with this event, which was read already. The names of the server and
        the model stay those of the first answer.
        """
        self._certain, self.model = True, self.model or ""
        said = read_event(event)
        self.finish, self.over = said.finish, said.over

    def flush(self) -> list[Any]:
        """Return the end of an open tool call."""
        end = self._calls.flush()
        return [Part(TOOL_CALL, end, [])] if end else []

    def _learn_name(self, event: Any, said: Any) -> None:
        if self.name and self.finish and (said.api != COMPATIBLE or event.get("choices")):
            return  # another answer
        model = find(event, MODEL)
        if self.model is None and model and isinstance(model[0], str):
            self.model = model[0] or None
        if not self._certain:
            name, self._certain = server_name(event, said.api)
            self.name = name if self._certain else self.name or name


def server_name(event: Any, api: str) -> tuple[str, bool]:
    """Return which server sends such events, and whether that is certain.

    >>> server_name(
    ...     {"choices": [{"delta": {}}], "system_fingerprint": "fp_ollama"},
    ...     "OpenAI-compatible server",
    ... )
    ('Ollama, chat completions', True)
    """
    if api != COMPATIBLE:
        api = _variant_of(api, event)
        return ("", False) if api[:1] == "(" else (api, True)
    if "prompt_filter_results" in event:
        return "Azure OpenAI, chat completions", True
    is_chat = "chat" in str(event.get("object")) or bool(
        find(event, "choices.delta,message|choices[*].delta,message")
    )
    if not is_chat and not event.get("choices"):
        return "", False  # an event about the usage
    chat = ", chat completions" if is_chat else ", completions"
    fingerprint = str(event.get("system_fingerprint") or "")[:99]
    model = str(event.get("model") or "")[:99]
    has_print = fingerprint[:3] == "fp_"
    choice = object_at((find(event, "choices[*]") or [{}])[0])
    delta, rates = object_at(choice, "delta"), set(object_at(event, "usage"))
    signs = (
        ("OpenRouter", "provider" in event and str(event.get("id")).startswith("gen-")),
        ("Perplexity", "search_results" in event),
        ("Mistral", "p" in event and model.startswith(OF_MISTRAL)),
        ("MLC-LLM", model.endswith("-MLC") and "tool_call_id" in delta),
        ("SGLang", "matched_stop" in choice),
        ("mlx-lm", _is_of_mlx(fingerprint)),
        ("mistral.rs", "avg_compl_tok_per_sec" in rates),
        ("TabbyAPI", {"prompt_tokens_per_sec", "completion_tokens_per_sec"} <= rates),
        ("TensorRT-LLM", "avg_decoded_tokens_per_iter" in choice),
        ("Ollama", fingerprint == "fp_ollama"),
        ("llama-server", "timings" in event or _is_of_llama(fingerprint)),
        ("text-generation-inference", "-sha-" in fingerprint or "-native" in fingerprint),
        ("vLLM", {"token_ids", "stop_reason"} & set(choice) or "prompt_token_ids" in event),
        ("Groq", "x_groq" in event),
        ("Cerebras", "time_info" in event),
        ("DeepSeek", has_print and model.startswith("deepseek-")),
        ("xAI", has_print and model.startswith("grok-")),
        ("Azure OpenAI", "content_filter_results" in choice or "prompt_filter_results" in event),
        (
            "OpenAI",
            (has_print or "service_tier" in event)
            and (not model or model.startswith(OF_OPENAI))
            and not model.startswith("gpt-oss")
            # LiteLLM's objects say what OpenAI said, and what others did.
            and "provider_specific_fields" not in delta,
        ),
    )
    names = [name for name, holds in signs if holds]
    return (names[0] + chat, True) if names else (api + chat, False)


def _logged_in(event: Any) -> Any:
    """Return the event that a line of a log in JSON has beside its level, or as a string of JSON,
    or that another object has inside, if it is of a named API; None for others. Claude Code wraps
    events of Anthropic's API in its own.
    """
    if not isinstance(event, dict):
        return None
    is_log = "level" in event or "severity" in event or event.get("type") == "stream_event"
    for key in OF_LINES:
        value = event.get(key)
        is_json = isinstance(value, str) and value[:2] == '{"'
        value = value_of_json(str(value)) if is_json else value
        said = read_event(value) if isinstance(value, dict) else None
        if said is not None and (is_log or is_json or said.api[:1] != "("):
            return value
    return None


def _ends_answer(data: "bytes | None") -> bool:
    """Return whether the text of a token is a marker, such as <|im_end|> or </s>."""
    return data is not None and data[:1] == b"<" and data[-1:] == b">"


def _variant_of(api: str, event: Any) -> str:
    """Return the name of an API, or of another one with the same events."""
    # Those of Anthropic begin with "msg_"; vLLM and llama-server have the same form.
    if str((find(event, "message.id") or [""])[0]).startswith("chatcmpl-"):
        return api.replace("Anthropic,", "Anthropic-compatible server,")
    return "OpenAI, realtime" if "event_id" in event and api == RESPONSES else api


def _is_of_llama(fingerprint: str) -> bool:
    """Return whether a fingerprint is the number of a build of llama.cpp: b6700-…."""
    return fingerprint[:1] == "b" and fingerprint[1:2].isdigit()


def _is_of_mlx(fingerprint: str) -> bool:
    """Return whether a fingerprint has two versions, those of mlx-lm and MLX, and Apple's GPU."""
    versions = fingerprint.split("-")[:2]
    of_both = len(versions) == 2 and all("." in one and one[:1].isdigit() for one in versions)
    return of_both and "-applegpu" in fingerprint
