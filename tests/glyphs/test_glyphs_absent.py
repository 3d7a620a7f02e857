"""Which streams the verdict leaves to a person: those that are not for the reader."""

import json

from simulated_pages import URL, answered

from detok_py.glyphs.evidence import Options, Seen
from detok_py.glyphs.traffic import MOST_ASKED, Answer, texts_of
from detok_py.glyphs.verdict import verdict

RIGHT = "Hello! I am glad to help you with your question today, just ask."
RUSSIAN = "Привет, мир! Это длинный ответ на русском языке, и в нём много слов, чтобы было видно."
OLDER = "Das ist eine lange Antwort über Köln, die vierzig Buchstaben hat und mehr."


def violated(page, sent, request="", before=None):
    """Return the rules that a page breaks; the last stream has the request."""
    answers = [answered(one, "") for one in sent[:-1]] + [answered(sent[-1], request)]
    options = Options(tofu=False, sent=sent, answers=answers, before=before)
    return {one["id"] for one in verdict(Seen([], URL, text=page), options)["violations"]}


def test_a_title_of_words_of_the_prompt_is_not_for_the_reader():
    prompt = "Welche schönen Städte am Rhein kennst du?"
    page = f"{prompt}\nBot:\n{RIGHT}\nCopy"
    assert violated(page, [RIGHT, "Städte am schönen Rhein"], prompt) == set()


def test_reasoning_that_quotes_the_prompt_is_not_for_the_reader():
    prompt = "Welche schönen Städte am Rhein kennst du, und welche Flüsse?"
    reasoning = f"The user asks: {prompt} I should name some towns, and keep it short and friendly."
    assert violated(f"{prompt}\nBot:\n{RIGHT}\nCopy", [RIGHT, reasoning], prompt) == set()


def test_a_broken_short_answer_beside_a_title_is_a_fault():
    short, title = "Die Straße heißt Müllerweg.", "Grüße aus Köln"
    assert violated(f"{title}\nBot: Die Strae heit Mllerweg.", [title, short])
    assert violated(f"{title}\nBot: Die StraÃŸe heiÃŸt MÃ¼llerweg.", [title, short])


def test_a_long_answer_that_lost_characters_everywhere_is_a_fault_beside_another():
    data = RUSSIAN.encode()
    shown = "".join([data[i : i + 7].decode(errors="ignore") for i in range(0, len(data), 7)])
    assert violated(f"Bot: {RIGHT}\nBot: {shown}", [RIGHT, RUSSIAN], "Привет?")


def test_an_answer_that_quotes_the_request_is_judged():
    lines = [
        "Das größte Gesetz der Welt",
        "steht in einem Buch über Bäume",
        "und heißt Grünes Buch",
    ]
    answer = "Die Quelle:\n" + "\n".join(lines)
    page = f"Grüße\nBot: {answer.replace(' über', '')}"
    assert "dropped-text" in violated(page, ["Grüße", answer], "\n".join(lines))


def test_an_older_answer_in_the_request_is_no_excuse_for_a_missing_one():
    said = [("user", "Köln?"), ("assistant", OLDER), ("user", "Köln?")]
    request = json.dumps({"messages": [{"role": role, "content": text} for role, text in said]})
    page = f"You: Köln?\nBot: {OLDER}"
    assert violated(f"{page}\nYou: Köln?\nBot:", [OLDER], request, page) == {"dropped-text"}


def test_a_request_is_kept_as_far_as_a_reader_wrote_it_and_not_without_bound():
    roles = ("system", "user", "assistant", "tool")
    body = json.dumps({"messages": [{"role": role, "content": role + "!"} for role in roles]})
    assert texts_of(body) == ["user", "user!"]
    assert texts_of("[" * 100_000) == []
    kept = Answer(URL, "text/plain", request="\n".join(["a line of text"] * 100_000)).asked
    assert 0 < sum(map(len, kept)) <= MOST_ASKED
