"""What is said of a recorded stream besides who broke its text: sentences that follow from its
head, its counts and its ids.

In: the bytes of a file, its problems, its chunks. Out: sentences, each true by itself.
"""

from typing import Any

from ..decode.utf8 import last_complete_utf8_end
from .alike import Same, Texts
from .event_shapes import find
from .log import ENCODED, MARKED, MIXED, PAGER, has_left_out
from .markup_shown import on_control_tokens, on_think_tags
from .mojibake import CP1252, find_misread
from .order import fields_of, plural, quoted, value_of
from .parse import is_utf8, object_at
from .rules import CAME_SO, ONE_BYTE, READ_WRONG
from .sentence import COPY_BROKEN, NOT_WHOLE, listed
from .servers import CONTENT, LOST
from .servers import REASONING as REASONED

MOST_LOOKED_AT = 8  # events, for a refusal
# Where servers write how many tokens they have read; in one of the first or last events.
TOKENS_IN = (
    "usage.prompt_tokens|usage.input_tokens|response.usage.input_tokens|message.usage.input_tokens"
    "|usageMetadata.promptTokenCount|prompt_eval_count|meta_info.prompt_tokens|tokens_evaluated"
    "|x_groq.usage.prompt_tokens|delta.usage.tokens.input_tokens|metadata.usage.inputTokens"
    "|metadata.usage.prompt_tokens|usage_metadata.input_tokens,prompt_token_count|usage.input_count|results[*].input_token_count"
    "|stats.input_tokens|totalUsage.inputTokens|value.usage.promptTokens|usage.promptTokens,prompt_count"
)
# Where they write how many of those made are reasoning; some do not count these among the others.
REASONING = (
    "usage.completion_tokens_details,output_tokens_details.reasoning_tokens|usage.reasoning_tokens"
    "|response.usage.output_tokens_details.reasoning_tokens|usageMetadata.thoughtsTokenCount"
    "|usage_metadata.thoughts_token_count"
)
FIRST_EVENTS = LAST_EVENTS = 4
COPY = "choices[*].text"
# Where llama-server, vLLM, SGLang and Anthropic write the stop string at which an answer ended.
STOP = (
    "stopping_word|choices[*].matched_stop,stop_reason|meta_info.finish_reason.matched"
    "|delta.stop_sequence"
)
STOP_IS_SHOWN = ", which is shown here because its tokens came: the server's text is without it"
TOTAL = "meta_info.completion_tokens|usage.output_tokens"  # of servers that repeat their text
LENGTH = "Its head says Content-Length: "
BY_MARK = (
    ": files were joined there, or a program wrote one too many. If the server sent it, clients "
    "lose that line."
)
LATIN = (b"iso-8859-1", b"latin1", b"latin-1", b"windows-1252", b"cp1252")
NOT_IN_WINDOWS = b"\x81\x8d\x8f\x90\x9d"
WINDOWS = (
    "The file is not UTF-8. It is whole in Windows-1252, in which Python writes files on Windows, "
    "and is read so here."
)
CHARSET = "Its head says that it is in Latin-1"
TOLD_AS_THEY_ARE = (LENGTH, MIXED, CHARSET, PAGER)


def head_of(data: bytes) -> tuple[dict[bytes, list[bytes]], bytes, bytes]:
    """Return the fields of the last head of HTTP before a body, the body, and the end of a line in
    the head; no fields if there is no head. A prompt with a command may stand before it.

    >>> head_of(b"$ curl -i x\\nHTTP/2 200\\nServer: a\\n\\nbody")
    ({b'server': [b'a']}, b'body', b'\\n')
    """
    fields: dict[bytes, list[bytes]] = {}
    while data[:2] == b"$ ":
        data = data.partition(b"\n")[2]
    end = b"\r\n" if b"\r\n" in data[: data.find(b"\n") + 1] else b"\n"
    while data[:5] == b"HTTP/":
        head, _, data = data.partition(2 * end)
        fields = {}
        for line in head.split(end)[1:]:
            name, _, value = line.partition(b":")
            fields.setdefault(name.strip().lower(), []).append(value.strip())
    return fields, data, end


def length_note(data: bytes) -> str:
    """Return a sentence if the head of an HTTP response says another length than its body has here;
    "" if it does not, or if that is not certain: a body may be packed, and line ends converted.

    >>> length_note(b"HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\ndata: {}")
    'Its head says Content-Length: 9, and 8 bytes follow it here: the rest is missing.'
    """
    fields, body, end = head_of(data)
    lengths = fields.get(b"content-length", [])
    if len(lengths) != 1 or not lengths[0].isdigit():
        return ""
    if b"transfer-encoding" in fields or b"content-encoding" in fields:
        return ""
    size = body.rfind(b"curl: (")
    size = len(body) if size < 0 or b"\n" in body[size:].strip() else size
    length = int(lengths[0])
    said = f"{LENGTH}{length}, and {size} bytes follow it here: "
    # CRLF may have become LF.
    if size + (body.count(b"\n") if end == b"\n" else 0) < length:
        return said + "the rest is missing."
    rest = body[length:size]
    if b"data:" in rest or (b"{" in rest and b"HTTP/" not in rest):
        return said + f"clients read {length} of them, or what recorded it changed or added some."
    return ""


def is_latin(data: bytes) -> bool:
    """Return whether the head of an HTTP response says that its body is in Latin-1."""
    kind = b"".join(head_of(data)[0].get(b"content-type", [])).lower()
    charset = kind.partition(b"charset=")[2].split(b";")[0].strip(b' "')
    return charset in LATIN


def is_windows(lines: list[bytes]) -> bool:
    """Return whether lines are not UTF-8, but whole in Windows-1252: no character is UTF-8.

    >>> is_windows([b"Voil\\xe0"]), is_windows([b"Voila"]), is_windows([b"\\xc3\\xa9 \\xe9"])
    (True, False, False)
    """
    found = False
    for line in lines:
        if not line or max(line) < 128:
            continue
        for at, byte in enumerate(line):
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            if byte in NOT_IN_WINDOWS or (byte >= 0xC2 and is_utf8(line[at : at + size])):
                return False
        found = True
    return found


def windows_as_utf8(data: bytes) -> bytes:
    """Return bytes in Windows-1252 as UTF-8."""
    return "".join([chr(c) if c < 128 else CP1252[c - 128] for c in data]).encode()


def has_bytes_of_lost(value: Any) -> bool:
    """Return whether the log probabilities of an event give the bytes of U+FFFD for a token."""
    if isinstance(value, Same):
        value = value.whole()
    return list(LOST) in find(value, "choices[*].logprobs.content[*].bytes")


def _on_refusal(events: list[Any]) -> str:
    """Return a sentence if the server marks the text as a refusal; "" if it does not."""
    for event in events[:MOST_LOOKED_AT]:
        value = fields_of(event)
        said = find(value, "choices[!index].delta,message.refusal")
        if value.get("type") == "response.refusal.delta" or any(
            one and isinstance(one, str) for one in said
        ):
            return "The server sent it as a refusal (`refusal`), not as an answer."
    return ""


def _on_filter(events: list[Any]) -> str:
    """Return a sentence on the filters of Azure OpenAI that an answer met; "" if it met none."""
    for event in events[-LAST_EVENTS:]:
        for results in find(value_of(event), "choices[*].content_filter_results"):
            names = sorted(object_at(results))
            met = [one for one in names if object_at(results, one).get("filtered") is True]
            if met:
                return f"The filter that it met: {listed(met)}."
    return ""


def _on_replaced(events: list[Any]) -> str:
    """Return a sentence on the text by which a server has replaced the answer (Dify, Poe); "" if it
    did not.
    """
    for event in events[::-1]:
        known = fields_of(event)
        of_dify = known.get("event") == "message_replace"
        said = known.get("answer" if of_dify else "replaced")
        if isinstance(said, str):
            text = said.replace("\n", "\\n")
            return (
                f"In line {event.line} the server replaced the answer by “{quoted(text)}”: the "
                "text here is what it had sent."
            )
    return ""


def _on_stop(events: list[Any], chunks: list[Any]) -> str:
    """Return a sentence on the stop string that ended an answer; "" if no server names it."""
    for event in events[-LAST_EVENTS:]:
        found = find(fields_of(event), STOP)
        if found and isinstance(found[0], str) and found[0]:
            text = found[0].replace("\n", "\\n")
            said = f"It ended at the stop string “{quoted(text)}”"
            pieces = [data for one in chunks for _, data in one.tokens]
            tokens = b"" if None in pieces else b"".join(pieces)
            sent = b"".join([one.data or b"" for one in chunks])
            own = tokens.endswith(found[0].encode()) and not sent.endswith(found[0].encode())
            return f"{said}{STOP_IS_SHOWN}." if own else f"{said}."
    return ""


def note_of_size(size: Any, text: str) -> tuple[str, str]:
    """Return what follows from the number of bytes that Chrome counted on the network of a body
    whose text is broken or misread: CAME_SO, READ_WRONG or ONE_BYTE, or "" if none does; and a
    sentence, "" if the text is whole, or if nothing follows.

    >>> note_of_size(5, "a \ufffd")[1]
    'Chrome counted 5 bytes (`content.size`), as many as this text has in UTF-8: it came so to \
the browser.'
    """
    lost, runs = text.count(LOST.decode()), find_misread(text)
    if type(size) is not int or not (lost or runs) or any("\ud800" <= c <= "\udfff" for c in text):
        return "", ""
    count = len(text.encode())
    right = sum([len(text[one.begin : one.end].encode()) - len(one.right.encode()) for one in runs])
    said = f"Chrome counted {size} bytes (`content.size`), "
    if size == count:
        return CAME_SO, said + "as many as this text has in UTF-8: it came so to the browser."
    if not lost and size == count - right:
        return READ_WRONG, said + (
            "as many as the right text has: they were right, and what read them took them for "
            "another encoding."
        )
    # A \ufffd has three bytes in UTF-8, and stands for one to three.
    if not runs and count - 2 * lost <= size < count:
        all_ = size == count - 2 * lost
        which = "each � was one byte" if all_ else "at least one � was less than three bytes"
        return ONE_BYTE if all_ else "", said + (
            f"and this text has {count} in UTF-8: {which} when it came, so the model did not write "
            "it."
        )
    return "", ""


def _on_done(events: list[Any], server: Any) -> str:
    """Return a sentence if an answer of the chat API ended without its reason; "" otherwise."""
    if server.finish or server.error:
        return ""
    values = [value_of(event) for event in events[-LAST_EVENTS:]]
    choices = [one for value in values for one in find(value, "choices[*]")]
    if not any(isinstance(one, dict) and "finish_reason" in one for one in choices):
        return ""
    return "It ended with [DONE], and no event here says why (`finish_reason`)."


def _on_copies(events: list[Any]) -> str:
    """Return a sentence if events say their text twice, and the copy that is not read is broken:
    Together has `text` beside `delta.content`.
    """
    first = [value_of(event) for event in events[:MOST_LOOKED_AT]]
    if not any(find(value, COPY) and find(value, "choices[*].delta.content") for value in first):
        return ""
    lines = []
    for event in events:
        value = event.value.whole() if isinstance(event.value, Same) else event.value
        copy, read = find(value, COPY), find(value, "choices[*].delta.content")
        if copy and read and copy != read and LOST.decode() in str(copy[0]):
            lines.append(str(event.line))
    if not lines:
        return ""
    return (
        f"{COPY_BROKEN}{listed(lines)}, where `delta.content`, which is read "
        "here, has characters: what wrote or recorded the events broke the copy."
    )


def _whole_value(value: Any) -> Any:
    """Return the value of an event with its own numbers, which a shape does not have; None if they
    are not known.
    """
    if isinstance(value, Texts):
        value = Same(value.shape, value.texts[-1], value.lines[-1], None) if value.lines else None
    return value.whole() if isinstance(value, Same) else value


def usage_of(events: list[Any], server: Any) -> str:
    """Return how many tokens the server says that it has read and made; "" if it does not say."""
    values = [_whole_value(one.value) for one in events[:FIRST_EVENTS] + events[-LAST_EVENTS:]]

    def last(path: str) -> int:
        found = [find(value, path) for value in values]
        # watsonx.ai says 0 in all events but the first.
        numbers = [one[0] for one in found if one and type(one[0]) is int and one[0] > 0]
        return numbers[-1] if numbers else 0

    read, thought = last(TOKENS_IN), last(REASONING)
    said = [f"{read} tokens in"] if read > 0 else []
    # Some write 1 into each event, for its own token.
    own = server.total == 1 and len(events) > FIRST_EVENTS
    if server.total and not own and (not server.repeats or find(values[-1], TOTAL)):
        said.append(f"{server.total} {'' if said else 'tokens '}out")
    if thought > 0:
        said.append(f"{thought} of reasoning")
    return ", ".join(said)


def notes_on(
    events: list[Any],
    problems: list[Any],
    chunks: list[Any],
    server: Any,
    lines: dict[str, list[int]],
    done: bool,
) -> str:
    """Return the notes on a stream; `done` if [DONE] ended it, and no event breaks off. `lines` has
    those of events whose text so far ends inside a character ("unfinished"), of a U+FFFD whose
    bytes are given ("written"), of further answers ("other"), and of those behind one without its
    end ("cut").
    """
    unfinished = lines["unfinished"]
    marks = [str(one.line) for one in problems if one.reason == MARKED]
    said = [_on_refusal(events), _on_filter(events), _on_stop(events, chunks), _on_copies(events)]
    if server.finish and chunks and all(chunk.channel == REASONED for chunk in chunks):
        said.append("The answer itself is empty: all its text is reasoning.")
    if lines["cut"]:
        at = listed([str(line) for line in lines["cut"]])
        said.append(f"The answer before line {at} has no end: no event says that it is over.")
    if done and not lines["other"]:
        said.append(_on_done(events, server))
    said += [f"{MARKED} {listed(marks)}{BY_MARK}"] if marks else []
    said.append(_on_replaced(events))
    limited = [one.line for one in problems if has_left_out(one)]
    said += [f"The log says in line {limited[0]} that it left out lines."] if limited else []
    said += [one.reason for one in problems if one.reason.startswith(TOLD_AS_THEY_ARE)]
    said += [ENCODED] if any(one.reason == ENCODED for one in problems) else []
    left_out = [one.reason for one in problems if one.reason.startswith("choice ")]
    said += [f"C{one[1:]}." for one in left_out]
    if unfinished and not any(chunk.broken for chunk in chunks):
        named = listed([f"line {line}" for line in unfinished])
        said.append(
            f"In {plural(len(unfinished), 'event')} ({named}) the text so far ends with �, and a later event has the character "
            "there: the engine sends text before its last character is whole."
        )
    # Of servers whose bytes are the token's own, the verdict has it.
    if lines["written"] and any(chunk.broken for chunk in chunks):
        said.append(
            f"The bytes of the � in line {listed([str(line) for line in lines['written']])} are "
            "given as EF BF BD: the model wrote it, or the server took them from broken text."
        )
    counted = 0 if lines["other"] or left_out else server.total  # each answer has its own count
    more, ids = _more_tokens(counted, chunks)
    if abs(more) > 1:
        said.append(f"The server counts {counted} tokens, and its events have {ids} ids.")
    pieces = sum([len(one.texts.texts) if one.texts else bool(one.data) for one in chunks])
    if counted > 1 and pieces > 1.5 * counted + 2:
        said.append(f"The server counts {counted} tokens, and the text came in {pieces} pieces.")
    said += _ids_of_two_texts(chunks)
    if server.broken_call and not any(one.reason.startswith(PAGER) for one in problems):
        finish = "" if lines["other"] else server.finish
        end = f", and the answer ended with “{finish}”" if finish else ""
        said.append(f"{NOT_WHOLE}{end}.")
    return " ".join([one for one in said if one])


def _more_tokens(counted: int, chunks: list[Any]) -> tuple[int, int]:
    """Return how many tokens more a server counts than its events have ids, and these; (0, 0) if it
    counts none, or if some events have none.
    """
    ids = sum([len([i for i, _ in chunk.tokens if i is not None]) for chunk in chunks])
    all_ids = all(chunk.tokens or not chunk.data for chunk in chunks)
    return (counted - ids, ids) if ids and counted and all_ids else (0, 0)


def lacks_ids(server: Any, chunks: list[Any]) -> bool:
    """Return whether ids are missing. llama-server has only the last id of a character of several
    tokens, and counts its tokens in /completion alone.
    """
    if not server.total and server.name.startswith("llama-server"):
        return any(chunk.data and max(chunk.data) > 127 for chunk in chunks)
    return _more_tokens(server.total, chunks)[0] > 1


def checked_text(chunks: list[Any]) -> tuple[list[Any], str]:
    """Return the chunks without the bytes of tokens that are wrong, and sentences on them."""
    said = b"".join([one.data for one in chunks if one.data and one.channel == CONTENT])
    out, spoiled = _without_lost(chunks, said)
    out, withheld = _without_ends(out)
    notes = [spoiled, withheld, on_think_tags(said), on_control_tokens(said)]
    return out, " ".join([one for one in notes if one])


def _without_ends(chunks: list[Any]) -> tuple[list[Any], str]:
    """Return the chunks without the tokens of those whose bytes begin inside a character that no
    token before has begun, and which the text has whole; and a sentence on them.
    """
    ends = []
    held: dict[str, bytes] = {}  # the last bytes of each channel's tokens
    for n, (_, channel, tokens, data, *_) in enumerate(chunks):
        before, pieces = held.pop(channel, b""), [piece for _, piece in tokens]
        joined = b"" if None in pieces else b"".join(pieces)
        if not joined:
            continue
        inside = 0x80 <= joined[0] < 0xC0 and last_complete_utf8_end(before) == len(before)
        if inside and data and data != joined and data.endswith(joined) and LOST not in data:
            ends.append(f"line {chunks[n].line}")
        else:
            held[channel] = (before + joined)[-3:]
    if not ends:
        return chunks, ""
    many = len(ends) > 1
    out = [
        chunk if chunk.data is None else type(chunk)(chunk.seconds, chunk.channel, [], *chunk[3:])
        for chunk in chunks
    ]
    return out, (
        f"In {plural(len(ends), 'event')} ({listed(ends)}) the text has a whole "
        f"character, and {'their tokens have' if many else 'its token has'} only the end of its "
        "bytes: the tokens before did not come, so the text is read."
    )


def _without_lost(chunks: list[Any], said: bytes) -> tuple[list[Any], str]:
    """Return the chunks without the bytes of tokens that are those of U+FFFD where the text has
    none, and a sentence on them: the text has what they stand for.
    """
    its = [n for n, one in enumerate(chunks) if one.channel == CONTENT and one.tokens]
    pieces = [data for n in its for _, data in chunks[n].tokens]
    joined = b"" if None in pieces else b"".join(pieces)
    # Without more text than that of the others, the answer may have ended before them.
    if LOST not in joined or LOST in said or len(said) <= len(joined.replace(LOST, b"")):
        return chunks, ""
    spoiled = [n for n in its if any(LOST in data for _, data in chunks[n].tokens)]
    count = 0
    out = list(chunks)
    for n in spoiled:
        seconds, channel, tokens, *rest = chunks[n]
        count += len([data for _, data in tokens if LOST in data])
        out[n] = type(chunks[n])(seconds, channel, [(i, None) for i, _ in tokens], *rest)
    where = listed([f"line {chunks[n].line}" for n in spoiled])
    return out, (
        f"The text has no �; the log probabilities give EF BF BD as the bytes of "
        f"{count} token{'s' * (count > 1)} ({where}): for them, the engine decoded each token by "
        "itself."
    )


def _ids_of_two_texts(chunks: list[Any]) -> list[str]:
    """Return a sentence on the first id that came with two texts. A part of a character has no text
    of its own, so only texts count of which one has a letter of ASCII that the other has not.
    """
    seen: dict[int, Any] = {}
    for chunk in chunks:
        token_id = chunk.tokens[0][0] if len(chunk.tokens) == 1 else None
        if token_id is None or not chunk.data:
            continue
        before = seen.setdefault(token_id, chunk)
        letters = [{c for c in one.data if 32 < c < 127} for one in (before, chunk)]
        if letters[0] != letters[1]:
            first, second = [one.data.decode()[:24] for one in (before, chunk)]
            return [
                f"The id {token_id} came with “{first}” in line {before.line} and with “{second}” "
                f"in line {chunk.line}: an id is wrong, or text comes later than its token."
            ]
    return []
