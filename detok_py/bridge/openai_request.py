"""Requests of OpenAI's API, checked and translated.

In: the body and the headers of a request. Out: the run's request, how its text is read, and in
which form the client wants the answer; or an ExitError with the HTTP status and a body in OpenAI's
shape. Errors repeat only the names of parameters.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import DetokError, RemoteProtocolError
from ..protocol import wire
from .engines import EngineError
from .jobs import ALL_THERE_IS, is_list_of_objects, read_number

MAX_BODY = 1 << 20
MAX_STOPS = 64
MAX_STOP = 8192  # characters, of all stops together
RUN = re.compile(r"[A-Za-z0-9_-]{16,64}")

# The parameters for the engine, those of the scripted engine, and all that are not reported as
# ignored.
SAMPLING = ("temperature", "top_p", "top_k", "seed")
SCRIPT = ("engine", "text", "cut", "pace", "faults")
READ = {
    *("model", "messages", "prompt", "stream", "stream_options", "stop", "tools", "tool_choice"),
    *("max_tokens", "max_completion_tokens", "n", "best_of", "echo", "suffix", "logprobs"),
    *("top_logprobs", "detok", "user", "metadata", "store", "service_tier", "safety_identifier"),
    *("prompt_cache_key", "functions", "function_call", "after"),
    *SAMPLING,
}
# About how an answer is sent, not about its content.
OF_ONE_REQUEST = ("stream", "stream_options", "after")
# Refused, because the answer would differ: (parameter, values that change nothing).
REFUSED: dict[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
}
# Not reported as ignored: values that ask for what an answer here is anyway. So are None, 0, false
# and empty values of every parameter. 1 is true too.
PLAIN: dict[str, tuple[Any, ...]] = {
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "parallel_tool_calls": (True,),
    "skip_special_tokens": (True,),
    "add_generation_prompt": (True,),
    "repetition_penalty": (1,),
    "repeat_penalty": (1,),
    "typical_p": (1,),
    "truncation": ("disabled",),
}
NOTHING: tuple[Any, ...] = (None, 0, "", {}, [])
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ExitError(DetokError):
    """A refused request or a failed answer: an HTTP status, one sentence, OpenAI's code for it, and
    whether another attempt may succeed, after `retry_after` seconds.
    """

    def __init__(
        self, status: int, message: str, code: str, *, param: str | None = None, retry: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry = retry
        self.retry_after: int = 1
        self.body: dict[str, Any] = error_body(status, message, code, param)


def error_body(status: int, message: str, code: str, param: str | None = None) -> dict[str, Any]:
    """Return the body of an error in OpenAI's shape.

    >>> error_body(404, "No.", "model_not_found")["error"]["type"]
    'invalid_request_error'
    """
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


class Asked(NamedTuple):
    """What a client asks for. `request` is the run's; `options` are arguments of
    `page.deltas.open_chat`. `run` is the id of a run to which the client can come back, or "";
    `after` is the position that the client has. `ignored` names parameters without effect.
    """

    is_chat: bool
    model: str
    request: dict[str, Any]
    options: dict[str, Any]
    streams: bool
    has_usage: bool
    run: str
    after: int
    ignored: tuple[str, ...]


def read_json(data: bytes) -> dict[str, Any]:
    """Return the object in a body. Raises ExitError for another value, and for one that is too deep
    or too large for a message of detok.v1.
    """
    try:
        text = data.decode("utf-8")
        if wire.values(text) <= wire.MAX_VALUES and wire.depth(text) <= wire.MAX_DEPTH:
            found = json.loads(text)
            if isinstance(found, dict):
                wire.check_plain(found)
                return found
    except (ValueError, RemoteProtocolError):
        pass
    raise ExitError(
        400,
        f"The body must be a JSON object in UTF-8, nested at most {wire.MAX_DEPTH} deep, with at most {wire.MAX_VALUES} values.",
        "invalid_json",
    )


def read_request(body: dict[str, Any], headers: Mapping[str, str], *, is_chat: bool) -> Asked:
    """Return a checked request. Raises ExitError, which names the invalid parameter."""
    for name, neutral in REFUSED.items():
        value = body.get(name)
        # 0 equals False, but as `logprobs` it asks for the tokens' own.
        if not any(value == one and (value is False) == (one is False) for one in neutral):
            raise _invalid(name, "is not supported here; leave it out")
    given = {
        "messages": _read_messages(body.get("messages")) if is_chat else None,
        "prompt": None if is_chat else _read_prompt(body.get("prompt")),
    }
    params = _read_numbers(body)
    tools = _read_tools(body) if is_chat else []
    if tools:
        params["tools"] = tools
    params.update(_read_script(body.get("detok")))
    stop = _read_stop(body.get("stop"))
    run, after = _read_run(headers, body.get("after"))
    streamed = body.get("stream_options")
    ignored = [
        name
        for name in body
        if name not in READ and body[name] not in (*NOTHING, *PLAIN.get(name, ()))
    ]
    if body.get("tool_choice") not in (None, "auto", "none"):
        ignored.append("tool_choice")
    options: dict[str, Any] = {"stop": stop, "toolSchemas": tools or None}
    if not is_chat:
        options = {"stop": stop, "format": None, "trimArtifacts": False}
    if not isinstance(body.get("stream", False), bool | None):
        raise _invalid("stream", "must be true or false")
    return Asked(
        is_chat,
        _read_model(body.get("model")),
        {**given, "params": params},
        options,
        bool(body.get("stream")),
        isinstance(streamed, dict) and streamed.get("include_usage") is True,
        _run_of(run, body) if run else "",
        after,
        tuple([name[:64] for name in ignored if name.isascii() and name.isidentifier()][:32]),
    )


def _invalid(name: str, what: str) -> ExitError:
    return ExitError(400, f"`{name}` {what}.", "invalid_value", param=name)


def _read_model(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise _invalid("model", "must be a string")
    return value or ""


def _read_messages(value: Any) -> list[dict[str, Any]]:
    if not value or not is_list_of_objects(value):
        raise _invalid("messages", 'must be a list of objects like {"role": "user", "content": …}')
    if not all(isinstance(one.get("role"), str) for one in value):
        raise _invalid("messages", "must each have a `role` that is a string")
    return list(value)


def _read_prompt(value: Any) -> str:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise _invalid("prompt", "must be a string")
    return value


def _read_numbers(body: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that are numbers."""
    params = {name: body[name] for name in SAMPLING if body.get(name) is not None}
    if type(params.get("seed")) is int:
        params["seed"] %= 1 << 32  # OpenAI's seeds have 64 bits and a sign
    if params.get("top_k") == -1:
        del params["top_k"]  # vLLM's word for no limit
    whole = "max_completion_tokens"
    most = whole if body.get(whole) is not None else "max_tokens"
    if body.get(most) is not None:
        params["max_tokens"] = body[most]
    for name in params:
        try:
            read_number(params, name)
        except EngineError as error:
            given = most if name == "max_tokens" else name
            raise ExitError(400, str(error), "invalid_value", param=given) from None
    return {"max_tokens": ALL_THERE_IS, **params}


def _read_stop(value: Any) -> list[str]:
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if (
        not isinstance(stops, list)
        or len(stops) > MAX_STOPS
        or not all(isinstance(stop, str) for stop in stops)
    ):
        raise _invalid("stop", f"must be a string, or a list of at most {MAX_STOPS} strings")
    if sum(len(stop) for stop in stops) > MAX_STOP:
        raise _invalid("stop", f"must have at most {MAX_STOP} characters in all")
    return [stop for stop in stops if stop]


def _read_tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    tools = body.get("tools")
    if tools in (None, []) or body.get("tool_choice") == "none":
        return []
    if (
        not tools
        or not is_list_of_objects(tools)
        or not all(
            isinstance(tool.get("function"), dict) and isinstance(tool["function"].get("name"), str)
            for tool in tools
        )
    ):
        raise _invalid("tools", 'must be a list of {"type": "function", "function": {"name": …}}')
    for tool in tools:
        # PHP writes an empty object as [].
        parameters = tool["function"].get("parameters") or {}
        if not isinstance(parameters, dict) or not isinstance(
            parameters.get("properties") or {}, dict
        ):
            raise _invalid("tools", "must have objects as `parameters` and their `properties`")
    return list(tools)


def _read_script(value: Any) -> dict[str, Any]:
    """Return the parameters of the scripted engine that a request has under `detok`."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not set(value) <= set(SCRIPT):
        raise _invalid("detok", f"must be an object that has at most {', '.join(SCRIPT)}")
    return value


def _read_run(headers: Mapping[str, str], after: Any) -> tuple[str, int]:
    """Return the id of a run that outlives its connection, and the position that the client has,
    from the header, or from `after` in the body for clients that cannot set a header for each
    request.
    """
    run, last = headers.get("x-detok-run", ""), headers.get("last-event-id", "")
    last = last or ("" if after is None else str(after))
    if run and not RUN.fullmatch(run):
        raise ExitError(
            400,
            "X-Detok-Run must be 16 to 64 random letters, digits, - or _.",
            "invalid_run",
        )
    if not run or not last:
        return run, 0
    if not re.fullmatch("[0-9]{1,15}", last):
        raise ExitError(
            400,
            "Last-Event-ID, or `after`, must be the id of the last event that came.",
            "invalid_event_id",
        )
    return run, int(last)


def _run_of(run: str, body: dict[str, Any]) -> str:
    """Return a run id, made from the client's id and the body, of which it reveals nothing. Another
    body gives another run, because its text is read in another way.
    """
    rest = {name: body[name] for name in body if name not in OF_ONE_REQUEST}
    said = json.dumps(rest, sort_keys=True)
    return hashlib.sha256(f"openai\n{run}\n{said}".encode()).digest().hex()
