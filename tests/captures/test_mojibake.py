"""Text that was UTF-8 and was read as something else is found, and real text is not."""

import json
from pathlib import Path

import pytest

from detok_py.captures.mojibake import (
    ARABIC,
    CENTRAL,
    CENTRAL_CONSOLE,
    CONSOLE,
    CYRILLIC,
    DOS,
    GREEK,
    GREEK_CONSOLE,
    LATIN,
    MAC,
    find_misread,
)

RECITED = Path(__file__).resolve().parents[2] / "detok_py" / "bridge" / "recite" / "texts.json"
TEXTS = [
    "naïve café",
    "Crème brûlée à la carte, « voilà »",
    "你好，世界",
    "Привет, мир",
    "😀 ok",
    "don’t “quote” — it",
    "Tiếng Việt rất hay",
    "Січень, її рілля: «Рік — Сёмга», №5, Ўладзімір і Їжак",
    "São Paulo não é",
    "สวัสดี",
]
REAL = [
    *TEXTS,
    "Il dit voilà » et là »",
    "NÃO, AÇÃO, SÃO: É À»",
    "Ông Ấy đã đến Ấn Độ «à »",
    "the é became Ã© and ü became Ã¼",
    "`Ã©` and `ðŸ˜€` are what “Ã¼” looks like",
    "one mojibake Ã© here",
    "╔══╗\n║ a║\n├──┤ └┬┐ ═╗═╗",
    "مرحبا كيف حالك، «نعم» ٪",
    "тебе там надо сам рад",
    "عکس، عکس و عکس؛ گ",
    "ยากลำบาก เขต เกต",
    "เธอชอบกินข้าวเหนียว ฿100",
    "Το βιβλίο της ιδέας, Ώθηση — «Άρα» έας ωτ",
    "Je to těžké: věž, běžet, šíř, ďábel, ňadra",
    "běžet\ntěžký\nvěž\nŠťáva",
    "MĂŞTI ŞI ÎNVĂŢĂTURĂ",
    "там тают тайны — там, там",
    "آپارتمان و آچار، گفت‌وگو",
    "x² ≤ ±3 αβ Γπ £5 ±2°",
]


OF_ALL_SCRIPTS = {
    "latin-1": LATIN,
    "cp1252": LATIN,
    "cp437": CONSOLE,
    "cp850": CONSOLE,
    "cp1251": CYRILLIC,
    "mac_roman": MAC,
}
# Found for the letters of one script only: those of others are letters of its own words.
OF_ONE_SCRIPT = [
    ("cp866", DOS, "Привет, как дела"),
    ("cp866", DOS, "Москва — «столица», №5… 😀"),
    ("cp866", DOS, "Да — yes"),
    ("cp1256", ARABIC, "مرحبا كيف حالك"),
    ("cp1256", ARABIC, "نعم — مرحبا"),
    ("cp737", GREEK_CONSOLE, "Καλημέρα — «κόσμε»… τέλος"),
    ("cp1253", GREEK, "Καλημέρα — «κόσμε»… τέλος, Grüße"),
    ("cp852", CENTRAL_CONSOLE, "Zażółć gęślą jaźń — „Příliš žluťoučký kůň“"),
    ("cp1250", CENTRAL, "Zażółć gęślą jaźń — „Příliš žluťoučký kůň“ 😀"),
    ("cp1250", CENTRAL, "Привет, как дела"),
]


def misread(text, encoding):
    """The text as a program shows it that reads its bytes in another encoding, as WHATWG does."""
    raw = [bytes([byte]) for byte in text.encode()]
    return "".join([one.decode(encoding, "ignore") or chr(one[0]) for one in raw])


OF_ANY = [(code, name, text) for code, name in OF_ALL_SCRIPTS.items() for text in TEXTS]


@pytest.mark.parametrize(("encoding", "name", "text"), OF_ANY + OF_ONE_SCRIPT)
def test_misread_text_is_found_and_its_right_text_is_known(encoding, name, text):
    wrong = misread(text, encoding)
    found = find_misread(wrong)
    assert {run.encoding for run in found} == {name}
    for run in reversed(found):
        wrong = wrong[: run.begin] + run.right + wrong[run.end :]
    assert wrong == text


@pytest.mark.parametrize("text", REAL)
def test_real_text_and_quoted_examples_are_not(text):
    assert find_misread(text) == []


def test_none_of_the_languages_of_the_reciting_model_is():
    texts = json.loads(RECITED.read_text("utf-8"))
    assert len(texts) > 20
    for text in texts:
        assert find_misread(json.dumps(text, ensure_ascii=False)) == []


def test_half_a_pair_of_surrogates_is_no_misread_text():
    assert find_misread("half \ud83d of a pair, naÃ¯ves cafÃ©")[0].right == "ï"
    assert find_misread("\ud83d") == []
