"""Chat pages that seeds draw: what the engine sent, and what a page shows of it.

In: a seed, and the name of a fault or "". Out: a `Page` with what the verdict is told. A page has
its own words around the answers: chats, a prompt, labels, buttons, heads of code. It shows an
answer's Markdown as it is or rendered. Some streams are not for the reader: titles, suggestions,
reasoning, an answer that broke off and was asked for again.
"""

import random
import re
from typing import NamedTuple

from detok_py.glyphs.evidence import Options, Seen
from detok_py.glyphs.traffic import Answer

URL = "http://127.0.0.1/api"
SYLLABLES = {
    "English": "the an ing er on st ed to it re is ti as ve ra ch wa lo me ne",
    "German": "ge ver ung sch ein ich lich über ö ä ü ß fl er el tr au zeit haus weg",
    "Vietnamese": "tiếng việt người được nhiều trường đường những rằng không phải cũng sẽ đã",
    "Russian": "по на при ст ро ни ка ра то ва ле ть ся ый ая ем ых за об мо щи ю",
    "Arabic": "ال مر كت قل من في ات ون سا لم با را ها نا دي حم عل جد",
    "Hindi": "का की के में है से को ने पर यह वह हि न्दी भा षा रत क्य स्त्र प्र",
    "Thai": "กา รา มี ที่ ไป เป็น ของ ใน จะ ได้ ให้ ว่า และ คน น้ำ บ้าน เมือง ผู้",
    "Korean": " ".join([chr(0xAC00 + n * 37) for n in range(290)]),
    "Chinese": " ".join([chr(0x4E00 + n * 13) for n in range(600)]),
}
EMOJI = ["👋🏽", "👨‍👩‍👧", "🇩🇪", "❤️", "✅"]
TOGETHER = ("Thai", "Chinese")  # written without spaces
CODE = ("x = 1", "npm install", "List<String>", "<b>", "&amp;", "a_b", "print('é')")
LINES = ("def f(x):", "    return x + 1", "1. eins", "if a < b && c > d:", "<div>", "*p = 1")
LABELS = ("", "Assistant", "Bot:", "ChatGPT", "模型", "🤖", "Antwort")
BUTTONS = (
    ["Copy"],
    ["Copy", "Regenerate"],
    ["👍", "👎", "Copy"],
    ["コピー", "再生成"],
    ["gpt-4o · 3.2s"],
)
KINDS = ("one", "two", "title", "suggestions", "reasoning", "again")
FAULTS = ("drop", "double", "replace", "swap", "latin1", "ufffd", "cut")


class Page(NamedTuple):
    """What is judged; and for whoever reads a failure: the kind, and what was broken and how."""

    seen: Seen
    options: Options
    kind: str
    broken: str


class Writer:
    """Writes texts in one language, as pairs of Markdown and of what a page renders of it."""

    def __init__(self, chance):
        self.chance = chance
        self.language = chance.choice(list(SYLLABLES))

    def words(self, count):
        """Return words of one to four syllables."""
        syllables = SYLLABLES[self.language].split()
        words = [
            "".join(self.chance.choices(syllables, k=self.chance.randint(1, 4)))
            for _ in range(count)
        ]
        return ("" if self.language in TOGETHER else " ").join(words)

    def line(self, most):
        """Return a line of up to `most` pieces, each plain or marked up."""
        pieces = []
        for _ in range(self.chance.randint(1, most)):
            text = self.words(self.chance.randint(1, 6))
            code = self.chance.choice(CODE)
            link = f"[{text}](https://example.org/{self.chance.randrange(99)})"
            marked = [(f"**{text}**", text), (f"*{text}*", text), (f"`{code}`", code), (link, text)]
            emoji = self.chance.choice(EMOJI)
            pieces.append(self.chance.choice([(text, text)] * 6 + [*marked, (emoji, emoji)]))
        return tuple(" ".join(side) for side in zip(*pieces))

    def block(self):
        """Return a paragraph, a heading, a list, code or a table."""
        kind = self.chance.choice(
            ["paragraph"] * 4 + ["heading", "list", "numbers", "code", "table"]
        )
        lines = [self.line(3) for _ in range(self.chance.randint(1, 4))]
        if kind == "paragraph":
            return self.line(8)
        if kind == "heading":
            return "# " + lines[0][0], lines[0][1]
        if kind == "code":
            code = "\n".join(self.chance.choices([*LINES, "# " + self.words(3)], k=len(lines)))
            return f"```cpp\n{code}\n```", f"cpp Copy\n{code}"
        if kind == "table":
            rows = [f"| {marked} |" for marked, _ in lines]
            return "\n".join([rows[0], "|---|", *rows[1:]]), "\n".join([one for _, one in lines])
        marks = [f"{n + 1}. " if kind == "numbers" else "- [x] " for n in range(len(lines))]
        marked = "\n".join([mark + line[0] for mark, line in zip(marks, lines)])
        return marked, "\n".join([rendered for _, rendered in lines])

    def answer(self, rendered):
        """Return an answer, and what the page shows of it."""
        blocks = [self.block() for _ in range(self.chance.choice([1, 1, 2, 3, 5, 8]))]
        marked = "\n\n".join([block[0] for block in blocks])
        return marked, "\n".join([block[1] for block in blocks]) if rendered else marked


def make_page(seed, fault=""):
    """Return the page of a seed; with `fault`, the last answer is shown with one."""
    chance = random.Random(f"{seed} {fault}")
    writer = Writer(chance)
    kind = "one" if fault else chance.choice(KINDS)
    prompt, rendered = writer.words(chance.randint(2, 8)), chance.random() < 0.7
    answers = [writer.answer(rendered) for _ in range(2 if kind == "two" else 1)]
    streams = [marked for marked, _ in answers]
    broken = ""
    if fault:
        shown, broken = break_text(chance, fault, answers[0][1])
        answers[0] = (streams[0], shown)
    before, label = ["New chat", "Chats", "12:00"], chance.choice(LABELS)
    if kind == "title":
        words = [word for word in prompt.split() if len(word) > 3] or [prompt]
        streams.append(" ".join(chance.sample(words, chance.randint(1, min(3, len(words))))))
        if chance.random() < 0.3:
            before.append(streams[1])  # a page may show it
    elif kind == "suggestions":
        streams.append("\n".join([f"{n}. {writer.words(5)}?" for n in (1, 2, 3)]))
    elif kind == "reasoning":
        quoted = re.sub("[`|\n]", " ", streams[0][: chance.randint(10, 80)])
        english = " ".join(chance.choices(SYLLABLES["English"].split(), k=40))
        streams.insert(0, f"The user asks {prompt}. I answer {quoted}. {english}")
    elif kind == "again":
        streams.insert(0, streams[0][: chance.randint(1, len(streams[0]))])
    lines, buttons = [*before, prompt], chance.choice(BUTTONS)
    for _, shown in answers:
        lines += [*([label] if label else []), shown, chance.choice([" ", ""]).join(buttons)]
    text = "\n".join([*lines, "Send a message"])
    seen = Seen(findings_in(text), URL, text=text, tails=tails_of(answers))
    knows = chance.random() < 0.5
    options = Options(
        tofu=False,
        sent=streams,
        answers=[answered(stream, prompt) for stream in streams],
        before="\n".join([*before, prompt]) if knows else None,
    )
    return Page(seen, options, kind, broken)


def break_text(chance, fault, text):
    """Return a text with a fault in a word that is not ASCII, and what was done; "" if it has no
    such word, or no other.
    """
    words = [word for word in text.split() if len(word) > 3 and not re.search(r"[!-~]", word)]
    if not words or words == [text]:
        return text, ""
    word = chance.choice(words)
    at = text.index(word)
    half = len(word) // 2
    new = {
        "drop": "",
        "double": word * 2,
        "replace": "".join([chr(ord(c) + 1) for c in word]),
        "swap": word[1:] + word[:1],
        "latin1": word.encode().decode("latin-1"),
        "ufffd": word[:half] + "\ufffd" + word[half + 1 :],
        "cut": "",
    }[fault]
    end = "" if fault == "cut" else text[at + len(word) :]
    return text[:at] + new + end, f"{word!r} is {new!r}"


def finding(**fields):
    """Return a finding as the watcher tells it: the text around is `gr\ufffd`, on the page until
    the end.
    """
    return {
        "target": "#answer", "url": "http://127.0.0.1/", "text": "gr\ufffd", "at": 2,
        "spots": ["gr\ufffd"], "kind": "ufffd", "place": "text", "name": "",
        "run": 1, "culprit": None, "born": 100.0, "gone": None, "live": True, "frames": 3,
        "painted": True, "detached": False, "more": 0, "outside": False, **fields,
    }  # fmt: skip


def findings_in(text):
    """Return what the watcher finds in a page's text."""
    marks = [at for at, c in enumerate(text) if c == "\ufffd"]
    around = [text[max(0, at - 12) : at + 1] for at in marks]
    return [
        finding(url=URL, text=said, at=len(said) - 1, spots=[said], born=1.0) for said in around
    ]


def answered(stream, prompt):
    """Return what the proxy knows of a stream; its parts arrive every 20 ms."""
    answer = Answer(URL, "text/plain", request=prompt)
    answer.sent.arrived += [
        (1000.0 + 20 * n, stream[n * 8 : n * 8 + 8]) for n in range(len(stream) // 8 + 1)
    ]
    return answer


def tails_of(answers):
    """Return the ends of the growing text nodes: a node is a line, and shows parts as they come."""
    nodes = [line for _, shown in answers for line in shown.split("\n")]
    ends = [line[max(0, at - 32) : at] for line in nodes for at in range(1, len(line) + 1)]
    return [(1005.0 + 2.5 * n, end) for n, end in enumerate(ends)]
