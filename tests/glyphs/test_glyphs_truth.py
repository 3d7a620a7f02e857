"""What the model sent against what the page shows: every kind of damage is found and named, and
what a page rightly changes is none.
"""

import random
import time

import pytest

from detok_py.glyphs.truth import compare, copies, latin1, letters

MANY_SCRIPTS = "Grüße aus 東京: 👋🏽 sagt man, ภาษาไทย klingt so; 龜龜 bleibt, مرحبا بالعالم und naïve Ideen — ende gut, alles gut 🎉."
ENGLISH = "The quick brown fox jumps over the lazy dog. It does so again and again, forever and a day; a fine example of prose."
TEXTS = {
    "many scripts": MANY_SCRIPTS,
    "English": ENGLISH,
    "a text that repeats itself": f"{MANY_SCRIPTS} {ENGLISH}\n\n" * 3,
}


def page(answer: str) -> str:
    return f"You: hello\n{answer}\nSend"


def places(text: str, seed: int, count: int = 40):
    """Pieces of the text, and what stands before and after them.

    Not the very beginning: its double is like the page's own words.
    """
    chance = random.Random(seed)
    for _ in range(count):
        start = chance.randrange(1, len(text) - 14)
        end = start + chance.choice((1, 1, 2, 3, 6, 10))
        yield text[:start], text[start:end], text[end:]


def kinds(true_text: str, shown: str) -> set[str]:
    return {difference.kind for difference in compare(true_text, page(shown))}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Nimm List<String> für größe<fünf und schön>neun hier.", "Nimm List für größeneun hier."),
        (
            "So:\n```cpp\n#include <iostream>\nvector<int> größe;\n```",
            "So:\n#include\nvector größe;",
        ),
        ("Das Element `<b>` macht größer, ja.", "Das Element macht größer, ja."),
    ],
)
def test_words_in_angle_brackets_are_text(text, shown):
    assert "dropped" in kinds(text, shown)
    assert kinds(text, text.replace("```cpp", "").replace("`", "")) == set()


def test_what_markdown_does_not_show_is_not_missed():
    text = (
        "Über [Städte][1] und [die Länder][lz], [mehr](http://a.example 'Titel über Brücken').\n<!-- 漢 -->\n"
        "<details><summary>Öl</summary>mehr</details> <think>hm</think>\n\n[1]: http://b.example\n[lz]: http://c.example 'Länder'"
    )
    shown = "Über Städte und die Länder, mehr.\nÖl mehr hm"
    assert kinds(text, shown) == kinds(text, shown.replace("mehr.", "mehr. <!-- 漢 -->")) == set()
    notes = "Köln wächst[^1], München auch[^größe] 😀.\n\n[^1]: Quelle: Übersicht\n[^größe]: Länder"
    marked = (
        "Köln wächst\ufff91\ufffb, München auch\ufff92\ufffb 😀.\nQuelle: Übersicht ↩\nLänder ↩"
    )
    assert kinds(notes, marked) == set()
    drawn = "Vorher.\n```mermaid\ngraph TD; größe-->b\n```\nNachher, schön."
    assert kinds(drawn, "Vorher.\n\ufff9größe b\ufffb\nNachher, schön.") == set()
    assert kinds(drawn, "Vorher.\n\ufff9größe b\ufffb\nNachher, so.") != set()


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_with_the_whole_text_has_no_differences(name):
    assert compare(TEXTS[name], page(TEXTS[name])) == []


# kind: the seed of the places, and what stands there instead
DAMAGE = {"dropped": (1, lambda piece: ""), "changed": (6, lambda piece: "\ufffd" * len(piece))}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", DAMAGE)
def test_characters_that_are_dropped_or_replaced_are_found_at_every_place(name, kind):
    text = TEXTS[name]
    seed, damaged = DAMAGE[kind]
    for before, piece, after in places(text, seed):
        shown = before + damaged(piece) + after
        if letters(shown) != letters(text):
            assert kinds(text, shown) == {kind}, piece


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_doubled_characters_are_found_at_every_place(name):
    text = TEXTS[name]
    for before, piece, after in places(text, 2):
        shown = before + piece + piece + after
        if letters(shown) != letters(text) and letters(text) not in letters(shown):
            assert kinds(text, shown) & {"duplicated", "changed"}, piece


def test_doubled_characters_are_called_doubled():
    text = MANY_SCRIPTS
    found = [
        kinds(text, before + piece + piece + after)
        for before, piece, after in places(text, 3)
        if letters(piece) and letters(text) not in letters(before + piece * 2 + after)
    ]
    assert found
    assert all(one == {"duplicated"} for one in found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TEXTS)
def test_characters_in_another_order_are_found(name):
    text = TEXTS[name]
    found = []
    for before, piece, after in places(text, 4):
        shown = before + after[:3] + piece + after[3:]
        if letters(shown) != letters(text):
            assert kinds(text, shown), piece
            found.append("reordered" in kinds(text, shown))
    # A piece that moved may also be read as one that is missing here and too much there.
    assert sum(found) > len(found) * 0.7


@pytest.mark.parametrize("name", TEXTS)
def test_latin1_characters_are_found_and_named(name):
    text = TEXTS[name]
    for before, piece, after in places(text, 5):
        shown = before + piece.encode().decode("latin-1") + after
        if letters(shown) != letters(text):
            assert kinds(text, shown) == {"latin1"}, piece


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "cp437", "cp850"])
def test_a_whole_answer_read_in_another_encoding_is_one_difference(encoding):
    text = "Grüße aus Köln, naïve"
    (one,) = compare(text, page(text.encode().decode(encoding)))
    assert one.kind == "latin1"
    assert one.sent == text


def test_an_answer_that_never_came_is_dropped_whole():
    (one,) = compare("龜龜 bleibt", page(""))
    assert (one.kind, one.sent, one.shown) == ("dropped", "龜龜bleibt", "")


@pytest.mark.parametrize("size", [290, 310, 1990])
def test_a_long_piece_that_is_missing_is_one_difference(size):
    chance = random.Random(size)
    text = "".join([chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(4000)])
    (one,) = compare(text, page(text[:800] + text[800 + size :]))
    assert (one.kind, abs(len(one.sent) - size) < 3) == ("dropped", True)


def test_a_missing_end_is_dropped_though_a_button_has_its_last_letters():
    text = " ".join(f"word{n}" for n in range(200)) + " on the page."
    (one,) = compare(text, page(text[:600]) + "\nCopy Regenerate Send a message to the model")
    assert (one.kind, one.sent[-9:]) == ("dropped", "onthepage")


TWO_LINES = "Die Antwort ist lang genug, um sicher zu sein, und hat zwei Zeilen.\n"
TITLE = "Was man in München und Köln sieht:"
DULL = "All work and no play makes Jack a dull boy."
# name: what was sent, and the text of the page
SHOWN_OTHERWISE = {
    "the page's words between pieces of code": ("Führe aus:\n```\nls\n```\n```\npwd\n```\nund fertig", "Führe aus:\nCopy\nls\nCopy\npwd\nund fertig"),
    "a link that is cut in its address": ("Mehr über Köln steht [im Verzeichnis](https://example.o", "Mehr über Köln steht im Verzeichnis"),
    "an emoji that begins a bar of reactions too": ("Die Stadt ist Paris 😀", "Die Stadt ist Paris 😀 | 😀 👍"),
    "an emoji that is a button below it too": ("Gern geschehen 👍", "Gern geschehen 👍\n👍👎Copy"),
    "a label with the first word of the answer": ("Llama 3 is a model.", "Llama 3 Llama 3 is a model."),
    "a button that begins with the last sign": ("これは良い", "これは良い\nいいね"),
    "a button with the last word": (f"{TWO_LINES}Sie heißt Köln.", f"{TWO_LINES}Sie heißt Köln.\nKöln im Winter\nSend"),
    "a button with the last words, in Japanese": (f"{TWO_LINES}Quelle: Wikipedia, 東京都庁", f"{TWO_LINES}Quelle: Wikipedia, 東京都庁\n東京都庁 - Wikipedia\nSend"),
    "a button with the last words, in Chinese": (f"{TWO_LINES}你想了解更多吗？", f"{TWO_LINES}你想了解更多吗？\n了解更多吗？\nSend"),
    "a button with the last emoji": (f"{TWO_LINES}Wer weiß 🤷🏽‍♂️", f"{TWO_LINES}Wer weiß 🤷🏽‍♂️\n🤷🏽‍♂️ 👍\nSend"),
    "a prompt that begins as a title ends": (f"{TITLE} die größten Kirchen", f"New chat\n{TITLE} die größten Kirchen\ndie größten Kirchen sehe ich wo?\nSend"),
    "a prompt that begins as a title ends, in Japanese": ("東京の人口について", "東京の人口について\n人口について教えて\nSend"),
    "a prompt with a sentence that the answer repeats": (" ".join([DULL] * 5), f"Write five times: {DULL}\n{' '.join([DULL] * 5)}\nSend"),
    "a title with a sentence that the answer repeats": (" ".join([DULL] * 5), f"{' '.join([DULL] * 5)}\n{DULL} Again"),
    "text that Markdown hides": ("# Grüße\n\n**naïve** _Ideen_ mit [einem Verweis](https://example.org/ä) und\n\n```python\nprint('ü')\n```\n", page("Grüße\nnaïve Ideen mit einem Verweis und\nprint('ü')\nCopy")),
    "a numbered line of code": ("1. naïve\n\n```\n2. &amp; 漢\n```\n", page("naïve\n2. &amp; 漢")),
    "characters that typography replaces": ('"naïve" -- it\'s ...', page("“naïve” — it’s …")),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN_OTHERWISE)
def test_what_a_page_may_show_otherwise_is_no_difference(name):
    answer, text = SHOWN_OTHERWISE[name]
    assert compare(answer, text) == []


@pytest.mark.parametrize("count", [4, 20, 300])
def test_a_long_beginning_or_end_in_ascii_that_is_shown_twice_is_doubled(count):
    words = [f"word {n}," for n in range(count)]
    answer = " ".join(["It begins.", *words, "It ends."])
    first, last = " ".join(words[: count // 2]), " ".join(words[count // 2 :])
    head, tail = f"It begins. {first}", f"{last} It ends."
    for page, doubled in ((f"{head} {answer}", head), (f"{answer} {tail}", tail)):
        assert [d.shown for d in compare(answer, f"You: hi\n{page}\nCopy")] == [letters(doubled)]
        own_line = page.replace(f"{doubled} {doubled}", f"{doubled}\n{doubled}")
        assert compare(answer, f"You: hi\n{own_line}\nCopy") == []


@pytest.mark.parametrize("word", ["ha ", "0", "哈", "A horse! ", "Größe "])
def test_a_prompt_may_repeat_the_word_that_the_answer_repeats(word):
    answer, prompt = word * 30, word * 18
    assert compare(answer, f"You: Continue: {prompt}\n{answer}\nSend") == []
    assert compare(answer, f"You: hi\n{answer}\n{prompt}\nSend") == []
    assert compare(answer, f"You: {prompt}\n{answer}\n{prompt}\nSend") == []
    assert [d.kind for d in compare(answer, f"You: hi\n{prompt}{answer}")] == ["duplicated"]


def test_an_answer_of_a_model_in_a_loop_is_compared_quickly():
    begun = time.process_time()
    for loop, more in (("ha " * 3000, "ha " * 600), ("I am sorry. " * 1000, "I am sorry. " * 100)):
        assert compare(loop, f"You: {more}\n{loop}\nSend") == []
        (one,) = compare(loop, f"You: hi\n{loop}{more}\nSend")
        assert (one.kind, one.shown) == ("duplicated", letters(more))
    assert time.process_time() - begun < 2


def test_an_end_that_is_shown_twice_is_doubled():
    assert kinds("und am Ende 🎉", "und am Ende 🎉🎉") == {"duplicated"}
    assert kinds("es heißt 東京都庁", "es heißt 東京都庁東京都庁") == {"duplicated"}
    assert kinds("Gern geschehen 👍", "Gern geschehen 👍👍") == {"duplicated"}
    # The answer has it twice, and the page three times.
    assert kinds("es heißt 東京都庁東京都庁", "es heißt 東京都庁東京都庁東京都庁") == {"duplicated"}


@pytest.mark.parametrize(
    "end",
    [
        "とても楽しかったです。",
        "結論として、この方法は安全であり、今後も広く使われるでしょう。",
        "Viele Grüße aus Köln!",
    ],
)
@pytest.mark.parametrize("space", [" ", "\n"])
def test_a_last_sentence_that_is_repeated_on_the_next_line_is_doubled(end, space):
    answer = f"Die Antwort ist lang genug, um sicher zu sein.{space}{end}"
    for again in (end, end[3:]):
        assert kinds(answer, f"{answer}\n{again}") == {"duplicated"}


def test_list_markers_list_boxes_and_character_references_may_be_missing():
    source = "1. Grüße\n2. [Ort](https://example.org/ä)\n   - [x] fertig\n> 3) “Zitat” &amp; &eacute;té 2 * 3\n"
    shown = "Grüße\nOrt\nfertig\n“Zitat” & été 2 * 3"
    assert compare(source, page(shown)) == []
    assert compare(source, page(source)) == []
    assert kinds(source, shown.replace("ü", "")) == {"dropped"}


def test_a_text_that_the_page_must_show_twice_is_missing_if_it_is_there_once():
    text = "sag 龜龜 genau so"
    assert compare(text, f"You: {text} Bot: {text}", times=2) == []
    (one,) = compare(text, f"You: {text} Bot: sag 龜 genau so", times=2)
    assert one.kind == "dropped"


def test_the_text_before_a_difference_says_where_it_is():
    (one,) = compare("eins zwei 東京 drei vier fünf", page("eins zwei 東 drei vier fünf"))
    assert one == ("dropped", "京", "", "einszwei東")


def test_a_text_without_comparable_characters_has_no_differences():
    assert compare("", page("anything")) == compare(" ... ", page("")) == []


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("café Ã© naïve", ["Ã©"]),
        ("ä½\xa0å¥½", ["ä½\xa0å¥½"]),
        ("naïve Grüße", []),
        ("çÃ¡", ["Ã¡"]),
    ],
)
def test_latin1_runs_are_those_that_can_be_read_as_utf8(text, runs):
    assert latin1(text) == runs


# --- the whole answer twice -----------------------------------------------------------------------
def test_a_copy_of_the_whole_answer_is_told_from_the_page_s_other_places_for_it():
    for text in TEXTS.values():
        assert copies(text, page(f"{text}\n{text}")) == 1
        assert copies(text, page(text)) == 0
        assert copies(text, f"{text[:30]} {page(text)}") == 0  # a title begins as the answer does
        preview = f"{text} 12:01 New chat {page(text)}"  # a list of chats has their last message
        assert copies(text, preview) == copies(text, preview, before="") == 0


def test_what_was_there_before_is_no_copy():
    older = f"You: hello Bot: {ENGLISH} Copy "
    assert copies(ENGLISH, older * 2, before="") == 1
    assert copies(ENGLISH, older * 2, before=older) == 0
    assert copies(ENGLISH, older + f"Bot: {ENGLISH} Copy " * 2, before=older) == 1
    assert copies(ENGLISH, ENGLISH * 3, before=ENGLISH) == 1


def test_a_short_answer_and_a_rendered_one():
    assert copies("Yes, of course.", "Yes, of course. Yes, of course.") == 0
    source = f"# A title\n\n1. {ENGLISH}\n"
    assert copies(source, f"A title {ENGLISH} A title {ENGLISH}") == 1
