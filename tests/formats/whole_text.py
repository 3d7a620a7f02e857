"""Whole answers of chat models, read plainly, to judge the machine that reads them as streams.

In: the name of a format and the pieces of an answer, each ordinary text or one token that is a
marker, as a list or in the notation of the cases (`⟦<think>⟧` is one token). Out: content,
reasoning and calls. It never streams: it looks at the whole text, searches strings and descends.

    >>> answer = whole_text("qwen3_hermes", "⟦<think>⟧\\nHm.\\n⟦</think>⟧\\n\\nHi")
    >>> answer.content, answer.reasoning
    ('Hi', 'Hm.')

With `cut`, more may come: the answer is what every way to go on has in common. Without, nothing
more comes: what could have become markup, and has not, is text.

Where the markup leaves a choice, this is what is chosen here and in the machine.

All formats
- newlines beside markers of sections, blocks and calls: at most two on each outer and inner side
  are markup; spaces are not. Harmony and Kimi K3: none
- newlines that begin an answer: text; with start "reasoning" the section's edge, so markup;
  GLM-4.5 begins its answers with one: markup
- newlines that end an answer: text; but if nothing else follows a call (at most two), markup
- text behind a call: content, its newlines included; between two calls at most two newlines are
  dropped, all else is content
- a token that is a marker, where it means nothing: not shown (a close that nothing opened, an
  opener without a call)
- text that is spelled like a marker: text, if the vocabulary has the marker as a token; else
  markup where it fits (see the next two)
- reasoning tags as text: open only at the beginning of an answer, close only what is open; tags
  around content: only before content
- a call's tag as text: markup if a call follows (`{` with a name, or `[` with such an object);
  else text
- a complete opener, and the text ends: markup, not shown; half an opener at the end is text,
  unless one of its tokens has come
- a call inside reasoning: is read; reasoning goes on behind it until its own end
- reasoning opened again by its token: is reasoning; several blocks are joined with nothing
  between
- a token inside a JSON string, or a raw value: its spelling is part of the string; only the end
  of the turn ends it
- when a call has a name: JSON: when its string is closed; else at the header's terminator.
  Before, nothing is said of the call
- a body that is no call (no name): text: without the opener if that is a token, with it if it is
  text
- `complete`: JSON: its last bracket has come (or the call's close behind whole arguments); tags:
  the call's end, its block's end or the next call; never the end of the answer, which ends only
  code
- arguments missing or empty in a call that has ended: `{}`; `null` and other values as written
- JSON that is not valid: as written: only brackets and quotes are counted
- arguments encoded twice: decided by the first character: a string that begins with `{` gives its
  text, also if that is not JSON
- members of a call: name or tool_name, arguments or parameters, id or tool_call_id; any order;
  the first of each counts; others are ignored
- text where JSON should be (behind a header): a JSON string of it, up to the close
- parameters: what is certain: `{` with the name; a key whole, with `: `; a string (schema:
  exactly "string") as it comes; other values at their end; `}` at the call's end
- parameters: what a value is: schema "string": raw. Union with string: JSON of another listed
  type, else raw. Else JSON as written, spaces at its ends removed; else `True`, `False`, `None`
  by schema; else a string
- parameters: anyOf, oneOf, enum, const: the types of all alternatives; unknown if one is unknown;
  `$ref` is unknown
- parameters: the close inside a value: the first close ends the value; what stands between
  parameters is not shown
- calls of Python and Gemma: strings and brackets as they come; numbers and words at their end;
  commas are lenient; Python has no triple quotes and no f-strings
- code (Harmony's python, Llama's tag, InternLM's interpreter): arguments `{"code": …}`; names:
  the recipient, "python", "interpreter"
- finish: "tool_calls" if there are calls and the last is complete, also with text behind them;
  None if cut

Single formats
- harmony, which messages are calls: any with a recipient but "assistant", in any channel; an
  unknown channel or none is content
- harmony, start "header" and text that is no header (nor ` to=`): content
- harmony, a body behind `to=python`: code, unless the header says json; other bodies with `{`,
  `[`, `"`: JSON; else code for tools without `functions.`
- qwen3_coder, qwen3.5, nemotron3, step3.5, seed_oss, no `<tool_call>`: `<function=N>` is a call
  if `<parameter=` or `</function>` follows; undecided at the end: text
- seed_oss, Python literals: read if the schema says array or object
- seed_oss, `<seed:cot_budget_reflect>`: the marker is not shown, its text is reasoning
- deepseek, kimi_k2, step3, the block around calls: not needed
- deepseek_v3.2, deepseek_v4, `string` is missing: as for parameters without markup of types
- kimi_k2, the header is the id: the name is without `functions.` and `:0`
- kimi_k3, text outside of sections: content, unless it is only space; a section that opens closes
  the one before; attributes have HTML entities
- mistral (three), body of `[TOOL_CALLS]`: `[` or `{`: JSON; else a name, and `[CALL_ID]`,
  `[ARGS]` or `{`: all three formats read all forms
- mistral_v11_args, `<think>` as text: is read too, at the beginning
- llama3.1_json, what is a call: at the beginning: an object with name and (parameters or
  arguments, an object), before which only id and type may come; text else. Certain when both are
  seen. Behind the tag a name is enough
- llama3.1_json, further calls: behind `;` or space
- llama4_pythonic, what is a call: at the beginning: `[f(key=` with a further character, or `[f()`
  and `]` or `,`
- gemma4, no opener: `call:NAME{` directly behind `<channel|>`; behind `<|tool_call>` also
  `:NAME{` and `NAME{`
- gemma4, a bare word: JSON if it is that, else a string
- functiongemma, a value in `<escape>`: a string, unless the schema says another type
- granite3, English: "Here is (Here's) my thought process:" at the beginning, "… my response:"
  after it
- phi4_mini, `functools`: anywhere before `[` and a call
"""

import re
from typing import Any, NamedTuple, Sequence

from .calls import Call, Context
from .messages import HARMONY, KIMI_K3, harmony, kimi_k3
from .sections import Sections
from .table import FORMATS
from .values import is_mark, mark, spelled

NAMES = tuple(sorted([*FORMATS, "harmony", "kimi_k3"]))


class Token(str):
    """A piece that is one token."""


Piece = str  # a Token, or ordinary text


class Answer(NamedTuple):
    """What an answer says. `finish` is None where it is cut."""

    content: str
    reasoning: str
    calls: list[Call]
    finish: str | None


def pieces_of(notation: str) -> list[Piece]:
    """Return the pieces that a case writes as text, in which `⟦x⟧` is the token x.

    >>> pieces_of("a⟦<think>⟧b")
    ['a', '<think>', 'b']
    """
    parts = re.split("⟦(.*?)⟧", notation)
    return [Token(part) if n % 2 else part for n, part in enumerate(parts) if part or n % 2]


def whole_text(
    name: str,
    pieces: str | Sequence[Piece],
    start: str = "content",
    tool_schemas: Any = None,
    cut: bool = False,
    texts: Sequence[str] | None = None,
) -> Answer:
    """Return what an answer in the format `name` says.

    `start` is "content", "reasoning" or "header". `texts` names the markers that the vocabulary
    does not have as one token, where it is another vocabulary than the format's own.
    """
    if isinstance(pieces, str):
        pieces = pieces_of(pieces)
    marks, as_text, ends = markers_of(name)
    if texts is not None:
        as_text = tuple(mark(spelling) for spelling in texts)
    text, ended = characters(pieces, marks, as_text, ends)
    cut = cut and not ended
    known = Context(tool_schemas, not cut)
    if name in TREES:
        content, reasoning, calls = TREES[name](text, start, known, cut)
        content, reasoning = spelled(content), spelled(reasoning)
    else:
        form = FORMATS[name]._replace(texts=as_text)
        sections = Sections(form, text, start, known, cut)
        sections.read()
        content, reasoning = sections.parts["content"], sections.parts["reasoning"]
        calls = sections.calls
    finish = "tool_calls" if calls and calls[-1].complete else "stop"
    return Answer(content, reasoning, calls, None if cut else finish)


TREES = {"harmony": harmony, "kimi_k3": kimi_k3}


def markers_of(name: str) -> tuple[set[str], tuple[str, ...], tuple[str, ...]]:
    """Return the markers of a format, those of them that are text, and the ends of its turns."""
    if name == "harmony":
        return set(HARMONY), (), ()
    if name == "kimi_k3":
        return set(KIMI_K3), (), ("<|end_of_msg|>",)
    form = FORMATS[name]
    written = [opener.text for opener in form.calls] + list(form.silent)
    written += [text for both in form.thinks + form.wraps + form.blocks for text in both]
    inner = {mark(text) for text in INNER.get(name, ())}
    marks = {c for text in written for c in text if is_mark(c)} | set(form.texts) | inner
    return marks, form.texts, form.ends


# Markers that come only inside calls.
DEEPSEEK = ("<｜tool▁sep｜>", "<｜tool▁call▁end｜>")
GLM = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
INNER = {
    "apertus": ("<|tools_suffix|>",),
    "command_a": ("<|END_ACTION|>",),
    "deepseek_v3_r1": DEEPSEEK,
    "deepseek_v3.1": DEEPSEEK,
    "functiongemma": ("<escape>", "<end_function_call>"),
    "gemma4": ('<|"|>', "<tool_call|>"),
    "glm4.5": GLM,
    "glm4.7": GLM,
    "internlm2": ("<|action_end|>",),
    "kimi_k2": ("<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    "lfm2": ("<|tool_call_end|>",),
    "llama4_pythonic": ("<|python_end|>",),
    "minimax_m2": ("</minimax:tool_call>",),
    "mistral_v3_array": ("[ARGS]", "[CALL_ID]"),
    "mistral_v11_args": ("[ARGS]", "[CALL_ID]"),
    "mistral_small3.2_callid": ("[ARGS]", "[CALL_ID]"),
    "olmo3": ("</function_calls>",),
    "phi4_mini": ("<|/tool_call|>",),
    "seed_oss": ("</seed:tool_call>",),
    "step3": ("<｜tool_sep｜>", "<｜tool_call_end｜>"),
}
for name in FORMATS:
    if any(opener.text == mark("<tool_call>") for opener in FORMATS[name].calls):
        INNER.setdefault(name, ("</tool_call>",))


def characters(
    pieces: Sequence[Piece], marks: set[str], as_text: tuple[str, ...], ends: tuple[str, ...]
) -> tuple[str, bool]:
    """Return the answer with one character for each marker, and whether its turn has ended.

    Text that is spelled like a marker is one only if the vocabulary does not have it as a token.
    Tokens that the format does not know are not shown.
    """
    spellings = sorted((spelled(c) for c in as_text), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, spellings))) if spellings else None
    out = plain = ""
    ended = False
    for piece in [*pieces, Token("")]:
        if not isinstance(piece, Token):
            plain += piece
            continue
        out += pattern.sub(lambda found: mark(found[0]), plain) if pattern else plain
        plain = ""
        ended = piece in ends
        if ended:
            break
        out += mark(piece) if piece and mark(piece) in marks else ""
    return out, ended
