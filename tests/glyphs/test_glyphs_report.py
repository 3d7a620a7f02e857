"""The verdict: which finding breaks which rule, and the three forms in which it is written."""

import gzip
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from simulated_pages import finding

from detok_py.glyphs import report
from detok_py.glyphs import verdict as rules
from detok_py.glyphs.calls import script
from detok_py.glyphs.evidence import Options, Seen
from detok_py.glyphs.traffic import Answer

PNG = "iVBORw0KGgo="


def verdict(*findings, **options):
    names = ("text", "tofu", "hidden", "tails", "split")
    shown = {name: options.pop(name) for name in names if name in options}
    seen = Seen(findings, "http://127.0.0.1/", **shown)
    return rules.verdict(seen, Options(**options))


def ids(entries):
    return [one["id"] for one in entries]


def broken(*findings, **options):
    """Return the rules that are broken."""
    return ids(verdict(*findings, **options)["violations"])


GONE = {"gone": 150.0, "live": False}


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("ufffd-persistent", {}),
        ("ufffd-painted", {**GONE, "frames": 1}),
        ("lone-surrogate", {"kind": "surrogate", "text": "gr\ud83d"}),
        ("ufffd-canvas", {"place": "canvas", "name": "fillText"}),
        ("ufffd-value", {"place": "value"}),
        ("ufffd-attribute", {"place": "attribute", "name": "aria-label"}),
        ("ufffd-css", {"place": "css", "name": "::before"}),
        ("ufffd-title", {"place": "title"}),
    ],
)
def test_a_glyph_that_was_shown_violates_the_rule_of_its_place(rule, fields):
    result = verdict(finding(**fields))
    assert ids(result["violations"]) == [rule]
    assert rule not in ids(result["passes"])
    assert result["incomplete"] == []


@pytest.mark.parametrize("fields", [{**GONE, "frames": 0, "painted": False}, {"detached": True}])
def test_a_glyph_that_no_frame_showed_is_incomplete(fields):
    result = verdict(finding(**fields))
    assert ids(result["incomplete"]) == ["ufffd-unpainted"]
    assert result["violations"] == []


def test_an_entry_says_what_where_when_and_why():
    (one,) = verdict(finding(**GONE, place="attribute", name="title", frames=2))["violations"]
    assert one["impact"] == "serious"
    assert one["target"] == ["#answer"]
    assert one["place"] == "attribute title"
    assert one["url"] == "http://127.0.0.1/"
    assert (one["text"], one["at"]) == ("gr\ufffd", 2)
    assert (one["frames"], one["painted"], one["cleared_ms"]) == (2, True, 50.0)
    assert one["cause_hint"]


def test_without_findings_every_checked_rule_passes():
    result = verdict()
    assert result["violations"] == result["incomplete"] == []
    assert "ufffd-persistent" in ids(result["passes"])
    assert "dropped-text" not in ids(result["passes"])
    assert "dropped-text" in ids(verdict(text="a true text", truth="a true text")["passes"])


def test_a_finding_outside_the_selection_is_not_judged():
    assert broken(finding(outside=True)) == []
    assert broken(finding(outside=True), finding()) == ["ufffd-persistent"]


def test_an_ignored_rule_is_neither_broken_nor_passed():
    result = verdict(finding(), ignore=["ufffd-persistent"])
    assert "ufffd-persistent" not in ids(result["violations"] + result["passes"])


# --- a U+FFFD that was really sent ----------------------------------------------------------------
def test_a_glyph_that_the_true_text_has_there_passes():
    result = verdict(finding(), text="a gr\ufffd", truth="a gr\ufffd")
    assert result["violations"] == []
    assert ids(result["passes"])[0] == "ufffd-literal"


def test_a_glyph_that_the_true_text_has_elsewhere_does_not_pass():
    assert "ufffd-persistent" in broken(finding(), text="gr\ufffd \ufffd", truth="grü \ufffd")


def test_a_genuine_glyph_in_one_place_does_not_excuse_another_place():
    both = finding(spots=["gr\ufffd", "other\ufffd"])
    assert broken(both, text="gr\ufffd", truth="gr\ufffd") == ["ufffd-persistent"]


@pytest.mark.parametrize(
    ("truth", "spot", "text", "rules_broken"),
    [
        ("\ufffd replaces what is no character", "Bot: \ufffd", "Bot: {}", []),
        ("\ufffd replaces what is no character", "replaces\ufffd", "Bot: {}", ["ufffd-persistent"]),
        # Behind a label that the answer has too.
        ("Hi \ufffd is shown by an AI", "AI Hi \ufffd", "AI {}", []),
        # The answer's beginning ends with the glyph, and so does another text of the page.
        ("\ufffd is a character", "Sources: caf\ufffd", "{}\nSources: caf\ufffd", ["ufffd-persistent"]),
        ("A \ufffd is shown", "Title: A\ufffd", "{}\nTitle: A\ufffd", ["ufffd-persistent"]),
        # The label has gone, or the text goes on with what Markdown does not show.
        ("\ufffd is a character", "Thinking\ufffd", "{}", []),
        ("\ufffd [docs](http://x.y/z) say so", "Bot: \ufffd", "Bot: \ufffd docs say so", []),
    ],
)  # fmt: skip
def test_a_label_stands_right_before_the_beginning_of_the_text(truth, spot, text, rules_broken):
    assert broken(finding(spots=[spot]), text=text.format(truth), truth=truth) == rules_broken


def test_allow_literal_passes_glyphs_that_stay_and_not_those_that_were_replaced():
    assert broken(finding(), allow_literal=True) == []
    assert broken(finding(**GONE), allow_literal=True) == ["ufffd-painted"]
    assert broken(finding(), allow_literal="a gr\ufffd") == []
    assert broken(finding(), allow_literal="nothing like it") == ["ufffd-persistent"]


def test_a_lone_surrogate_is_never_genuine():
    half = finding(kind="surrogate", text="\ud83d", spots=[])
    assert broken(half, allow_literal=True) == ["lone-surrogate"]
    assert broken(half, text="\ud83d", truth="\ud83d")[0] == "lone-surrogate"


# --- the text -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ("dropped-text", "sag 龜 und ภาษาไทย genau so"),
        ("duplicated-text", "sag 龜龜 und ภาษาไทยไทย genau so"),
        ("reordered-text", "sag 龜龜 und ไทยภาษา genau so"),
        ("latin1-mojibake", "sag " + "龜龜".encode().decode("latin-1") + " und ภาษาไทย genau so"),
        ("changed-text", "sag 龜蛇 und ภาษาไทย genau so"),
    ],
)
def test_a_text_that_is_not_what_was_sent_is_a_violation_by_its_kind(rule, shown):
    truth = "sag 龜龜 und ภาษาไทย genau so"
    (one,) = verdict(text=shown, truth=truth)["violations"]
    assert one["id"] == rule
    assert "⟦" in one["text"]
    assert one["cause_hint"]
    assert broken(text=truth, truth=truth) == []


def test_of_a_long_difference_60_characters_are_told():
    sent, shown = ("".join([chr(n) for n in range(at, at + 90)]) for at in (0x4E00, 0x5E00))
    truth = "Grüße aus 東京: {} und so weiter"
    (one,) = verdict(text=truth.format(shown), truth=truth.format(sent))["violations"]
    assert (one["id"], one["sent"], one["shown"]) == ("changed-text", sent[:60], shown[:60])
    assert one["text"].endswith(f"東京⟦{shown[:60]}⟧")


@pytest.mark.parametrize(
    "shown",
    [
        "undefined{}",
        "{}\ndata: [DONE]",
        "{}[object Object]",
        '{} {{"id":"1","choices":[]}}',
        "{}null",
    ],
)
def test_a_value_of_the_program_in_or_beside_the_answer_is_a_violation(shown):
    truth = "Grüße aus Köln"
    assert broken(text=f"Bot: {shown.format(truth)}\nCopy", truth=truth) == ["added-text"]
    for value in ("undefined", "&amp;"):
        assert broken(text=f"Grüße {value} aus Köln", truth=truth) == ["added-text"]


def test_a_value_that_was_sent_or_stands_apart_is_the_page_s_own():
    for truth in ("null, undefined or NaN: Köln", 'data: [DONE] ends it, as {"choices": []} does'):
        assert broken(text=f"Bot: {truth}\nundefined", truth=truth) == []


def test_words_inside_a_line_are_to_be_judged_and_words_between_lines_are_the_page_s_own():
    truth = "Grüße aus Köln am Rhein\n```\nprint('漢字 and kana')\n```"
    shown = "Grüße aus [1] Köln am Rhein\npython Copy\nprint('漢字 and kana')"
    assert ids(verdict(text=shown, truth=truth)["incomplete"]) == ["added-suspected"]
    assert verdict(text=shown.replace("[1] ", ""), truth=truth)["incomplete"] == []


def test_a_value_anywhere_is_a_violation_if_it_was_not_there_before_the_page_was_asked():
    truth, label = "Grüße aus Köln", "Quelle: undefined"
    for value in ("Quelle: undefined", "[object Object]", "NaN tok/s"):
        text = f"Bot: {truth}\n\n{value}"
        assert broken(text=text, truth=truth, before="") == ["added-text"], value
    shown = f"Bot: {truth}\n\n{label}"
    assert broken(text=shown, truth=truth, before=label) == []
    assert broken(text=shown, truth=truth) == []  # what was there is not known


def answered(text, *times):
    answers = []
    for when in times:
        answer = Answer(f"http://127.0.0.1/{len(text)}", "text/plain")
        answer.sent.feed(text.encode())
        answer.sent.flush()
        answer.sent.arrived[:] = [(when, text)]
        answers.append(answer)
    return {"sent": [text] * len(times), "answers": answers}


LONG = "Ein Text mit genug Buchstaben, den es schon gab, mit 漢字 und ภาษาไทย."


def test_an_answer_that_stood_there_before_the_page_was_asked_was_not_shown():
    old = {"text": f"Bot: {LONG}\nYou: again", "before": f"Bot: {LONG}", **answered(LONG, 1000.0)}
    assert broken(**old, tails=[(1500.0, "You: again")]) == ["dropped-text"]
    assert broken(**old, tails=[(1500.0, LONG[-40:])]) == []
    assert broken(**{**old, "text": f"Bot: {LONG}\nYou: again\nBot: {LONG}"}) == []


@pytest.mark.parametrize(("size", "rules_broken"), [(39, []), (40, ["dropped-text"])])
def test_forty_letters_that_stood_there_before_were_not_shown(size, rules_broken):
    text = ("漢字" * 20)[:size]
    assert broken(text=text, before=text, **answered(text, 1000.0)) == rules_broken


def test_an_answer_that_was_asked_for_again_and_shown_again_is_to_be_judged():
    result = verdict(text=f"{LONG}\n{LONG}", before="", **answered(LONG, 1000.0, 2000.0))
    assert (ids(result["violations"]), ids(result["incomplete"])) == ([], ["asked-again"])


def test_one_of_several_answers_that_is_hidden_is_not_shown_and_no_fault():
    other = LONG[::-1]
    hidden = {"display: none or visibility: hidden": f"1/2 {other}"}
    result = verdict(text=f"Bot: {LONG}", sent=[LONG, other], hidden=hidden)
    assert (ids(result["violations"]), ids(result["incomplete"])) == ([], ["not-shown"])


def test_latin1_without_the_true_text_is_sure_only_when_there_is_much_of_it():
    assert broken(text="GrÃ¼Ã\x9fe aus KÃ¶ln, naÃ¯ve") == ["latin1-mojibake"]
    (console,) = verdict(text="na├»ve caf├⌐")["violations"]
    assert (console["id"], "console" in console["cause_hint"]) == ("latin1-mojibake", True)
    (east,) = verdict(text="浣犲ソ锛屼笘鐣屻，銆鐨")["violations"]
    assert (east["id"], "GBK" in east["cause_hint"]) == ("latin1-mojibake", True)
    (mac,) = verdict(text="na√Øve caf√©")["violations"]
    assert mac["cause_hint"].endswith("as old programs of macOS do. Decode the bytes as UTF-8.")
    assert ids(verdict(text="ein Ã© allein")["incomplete"]) == ["latin1-suspected"]
    assert broken(text="voilà, façade, Ångström, ÁÉ") == []


def test_what_the_engine_sent_is_the_true_text_if_none_is_given():
    assert broken(text="sag 龜", sent=["sag 龜龜"]) == ["dropped-text"]
    assert broken(text="sag 龜龜", sent=["sag 龜龜"]) == []


def test_one_of_several_answers_that_is_not_shown_is_incomplete():
    titles = ["Ein Titel für die Liste", "Was danach zu fragen wäre"]
    result = verdict(text="sag 龜龜 genau", sent=[titles[0], "sag 龜龜 genau", titles[1]])
    assert result["violations"] == []
    assert ids(result["incomplete"]) == ["not-shown"] * 2
    assert [one["text"] for one in result["incomplete"]] == titles


def test_a_second_answer_that_is_shown_in_another_encoding_is_a_violation():
    second = "Grüße aus Köln: das Wetter wird schöner, und die Bäume blühen früher als üblich."
    wrong = second.encode().decode("cp1252")
    shown = f"sag 龜龜 genau\n{wrong}"
    assert broken(text=shown, sent=["sag 龜龜 genau", second]) == ["latin1-mojibake"]


def test_a_hidden_stream_that_quotes_the_shown_answer_is_not_shown():
    quotes = f"{LONG[:60]}, and that {LONG[80:160]}"
    thought = f"This person has little time. I should say that {quotes}."
    result = verdict(text=f"Bot: {LONG}\nCopy", sent=[LONG, thought])
    assert (ids(result["violations"]), ids(result["incomplete"])) == ([], ["not-shown"])


def test_an_answer_that_came_again_whole_must_be_whole():
    assert broken(text=LONG[:-3] + LONG[-2:], sent=[LONG[:-10], LONG]) == ["dropped-text"]


LIST_TEXT = "1. Grüße aus Köln am schönen Rhein\n2. Bäume blühen früher als üblich\n3. Ideen sind naïve Ideen"
NPM = "So geht es in Köln:\n```bash\nnpm install\n```\nDanach läuft das Programm überall schön."


@pytest.mark.parametrize(
    ("sent", "text", "options", "rules_broken"),
    [
        # A list that was cut off and came again, with a letter dropped.
        (
            [LIST_TEXT, LIST_TEXT + ", und mehr Wörter."],
            re.sub(r"\d\. ", "", LIST_TEXT) + ", und mehr Wrter.",
            {},
            ["dropped-text"],
        ),
        # A title with words of the answer, whose code stands below a button; or of the prompt.
        ([NPM, "Programm läuft in Köln"], NPM.replace("```bash", "bash Copy").replace("```", ""), {}, []),
        (
            ["Sonnig und warm, 20 Grad. 龜龜", "東京の天気予報"],
            "明日の東京の天気は?\nSonnig und warm, 20 Grad. 龜龜",
            {"before": "明日の東京の天気は?"},
            [],
        ),
        # A second answer that stops early.
        (
            ["Grüße aus Köln.", f"Die Bäume blühen früher. {LONG * 2}"],
            "Grüße aus Köln.\nDie Bäume blühen frü",
            {},
            ["dropped-text"],
        ),
    ],
    ids=["a list again", "a title and code", "a title and the prompt", "an answer that stops"],
)  # fmt: skip
def test_streams_beside_the_answer_are_told_from_answers(sent, text, options, rules_broken):
    assert broken(text=text, sent=sent, **options) == rules_broken


def test_a_value_that_the_prompt_has_is_not_added():
    answer = "Es ist das Ende 龜龜."
    shown = {"text": f"Explain data: [DONE]\n{answer}\n", "sent": [answer]}
    assert broken(**shown, before="Explain data: [DONE]") == []
    assert set(broken(**shown, before="Explain")) == {"added-text"}


def test_the_mark_of_a_letter_that_is_cut_off_does_not_make_a_glyph_wrong():
    truth = "ta\u0302t va\u0300 na\u0306m \ufffd"
    assert broken(finding(spots=[truth[3:]]), text=truth, truth=truth) == []


@pytest.mark.parametrize("lost", [slice(0, 80), slice(100, 250)])
def test_one_of_several_answers_that_lacks_a_long_piece_is_a_violation(lost):
    other = " ".join([chr(n) * 3 for n in range(0x4E00, 0x4E60)])
    result = verdict(text=f"{other.replace(other[lost], '')}\n{LONG}", sent=[LONG, other])
    assert (ids(result["violations"]), result["incomplete"]) == (["dropped-text"], [])


def test_a_glyph_that_the_engine_sent_broken_is_the_engines_fault():
    result = verdict(finding(), text="gr\ufffd", truth="grün", sent=["gr\ufffd"])
    hints = {one["id"]: one["cause_hint"] for one in result["violations"]}
    assert "engine" in hints["upstream-broken"] and "engine" in hints["ufffd-persistent"]


def test_a_pair_that_the_engine_sent_in_two_events_is_the_engines_fault():
    half = finding(kind="surrogate", text="gr\ud83d", at=2, **GONE)
    answer = Answer("http://a/x", "text/event-stream")
    for event in ("gr\ud83d", "\ude00!"):
        answer.sent.feed(b"data: " + json.dumps({"content": event}).encode() + b"\n\n")
    told = verdict(half, text="gr😀!", answers=[answer], sent=[answer.sent.text])
    assert ids(told["violations"]) == ["upstream-broken", "lone-surrogate"]
    assert all("engine" in one["cause_hint"] for one in told["violations"])
    assert "halves of a UTF-16 pair" in told["violations"][1]["cause_hint"]
    # A page that waits for the other half is right, and nothing was broken for its readers.
    assert broken(text="gr😀!", answers=[answer], sent=[answer.sent.text]) == []
    # Another engine's stream is not to blame.
    whole = Answer("http://a/x", "text/event-stream")
    assert broken(half, text="gr😀!", answers=[whole]) == ["lone-surrogate"]


def test_a_font_that_is_missing_fails_nothing():
    result = verdict(tofu=[{"text": "☃", "target": "p", "url": "http://127.0.0.1/"}])
    assert result["violations"] == []
    assert ids(result["incomplete"]) == ["tofu"]
    assert "☃" in result["incomplete"][0]["cause_hint"]


def test_findings_that_were_not_kept_are_counted():
    result = verdict(finding(more=7))
    assert "7 more" in result["incomplete"][0]["text"]
    told = verdict(finding(outside=True, more=7))
    assert told["passes"] == told["violations"] == []
    assert report.clean(told).endswith(", but not every finding was kept")
    assert "7 more findings were not kept" in report.doubt(told)


# --- the cause ------------------------------------------------------------------------------------
LINE = {"line": "chat.js:3:7", "flush": False}


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("without {stream: true}", {"culprit": {**LINE, "stream": False}}),
        ("or were cut before", {"culprit": {**LINE, "stream": True}}),
        ("at chat.js:3:7", {"culprit": {**LINE, "stream": False}}),
        ("hold an incomplete character back", GONE),
        ("Each piece of one character", {"run": 3}),
        ("a decoder a chunk", {}),
        ("UTF-16 unit (slice", {"kind": "surrogate", **GONE}),
        ("Join the halves", {"kind": "surrogate"}),
    ],
)
def test_the_cause_is_told_by_what_was_seen(words, fields):
    assert words in rules.cause(finding(**fields))


# --- its three forms ------------------------------------------------------------------------------
def full():
    return verdict(
        finding(screenshot=PNG, screenshot_kind="page"),
        finding(
            kind="surrogate", text="<b>\ud83d", **GONE, screenshot=PNG, screenshot_kind="redrawn"
        ),
        text="a gr\ufffd",
        truth="a grün",
        tofu=[{"text": "☃", "target": "p", "url": "http://127.0.0.1/"}],
    )


def test_the_json_is_shaped_like_axes_and_plain_ascii():
    written = report.as_json(full())
    assert written.isascii()
    result = json.loads(written)
    assert {"testEngine", "url", "timestamp", "violations", "incomplete", "passes"} <= result.keys()
    assert result["testEngine"]["name"] == "detok"
    assert all(
        {"id", "impact", "description"} <= one.keys()
        for group in ("violations", "incomplete", "passes")
        for one in result[group]
    )
    assert result["violations"][1]["text"] == "<b>\ud83d"


def test_the_junit_has_no_character_that_xml_forbids():
    result = verdict(text="a\uffff\ufffe", truth="a\uffff\ufffe und mehr")
    (case,) = ElementTree.fromstring(report.as_junit(result).encode()).iter("failure")
    assert "[U+FFFF][U+FFFE]" in case.text


def test_the_junit_is_xml_in_which_each_rule_is_a_case():
    suite = ElementTree.fromstring(report.as_junit(full()).encode())
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    failed, skipped = (
        [case for case in cases.values() if case.find(kind) is not None]
        for kind in ("failure", "skipped")
    )
    assert int(suite.get("tests")) == len(cases)
    assert int(suite.get("failures")) == len(failed) >= 2
    assert int(suite.get("skipped")) == len(skipped) == 1
    assert "U+D83D" in cases["lone-surrogate"].find("failure").text
    assert "☃" in cases["tofu"].find("skipped").get("message")
    assert cases["ufffd-canvas"].find("failure") is None


class Page(HTMLParser):
    def __init__(self, source):
        super().__init__()
        self.tags, self.words = [], ""
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data


def test_the_html_shows_each_fault_in_its_context_with_its_screenshot():
    source = report.as_html(full())
    page = Page(source)
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [picture["src"] for picture in pictures] == [f"data:image/png;base64,{PNG}"] * 2
    assert [picture["alt"] for picture in pictures] == [
        "The page",
        "The recorded text, painted again in its font",
    ]
    assert re.search(r"gr<mark>\ufffd</mark>", source)
    assert "<b>[U+D83D]" in page.words
    for words in ("#answer", "still there at the end", "Likely cause"):
        assert words in page.words
    source.encode("utf-8")


def test_the_html_loads_nothing_and_runs_nothing():
    bad = finding(text="<script>alert(1)</script>\ufffd", target="<img src=x>")
    page = Page(report.as_html(verdict(bad)))
    assert not {"script", "link", "iframe"} & {tag for tag, _ in page.tags}
    policy = [one["content"] for _, one in page.tags if one.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert "<script>alert(1)</script>" in page.words


def test_a_clean_verdict_is_a_page_and_a_suite_too():
    assert "No broken glyph was shown" in report.as_html(verdict())
    assert ElementTree.fromstring(report.as_junit(verdict()).encode()).get("failures") == "0"


def test_the_sentence_says_what_where_and_why():
    said = report.sentence(full())
    start = "2 broken glyphs were shown, 1 piece of text was dropped on http://127.0.0.1/:"
    assert said.startswith(start)
    assert "ufffd-persistent (critical) in #answer, 3 frames" in said
    assert "[U+D83D]" in said
    said.encode("utf-8")


def test_the_watcher_costs_a_page_at_most_7400_bytes():
    assert len(gzip.compress(script("watcher.js").encode(), 9)) <= 7400


def test_cuts_that_the_page_did_not_see_leave_the_glyph_rules_open():
    answer = Answer("http://a/x", "text/plain", "every-byte")
    list(answer.cut("é 東".encode()))
    answer.reads.got([1, 4, 6])
    told = verdict(answers=[answer])
    assert ids(told["violations"]) == []
    (one,) = told["incomplete"]
    assert (one["id"], one["text"]) == ("pieces-joined", "1 of 3 cuts of http://a/x")
    assert "ufffd-persistent" not in ids(told["passes"])
    clean = report.clean(told, " here")
    assert clean == "No broken glyph was shown here, but not every cut was tested"
    assert "\n  1 of 3 cuts of http://a/x: the page read" in report.doubt(told)
    answer.reads.got([5])
    assert report.doubt(verdict(answers=[answer])) == ""


def test_a_frame_that_was_not_watched_is_told():
    seen = Seen([], "http://127.0.0.1/", unwatched=["http://a/frame", "http://a/frame"])
    told = rules.verdict(seen, Options())
    (one,) = told["incomplete"]
    assert (one["id"], one["text"]) == ("not-watched", "http://a/frame")
    assert told["passes"] == []
    assert report.clean(told) == "No broken glyph was shown, but not every frame was watched"
    assert "http://a/frame: what a frame showed at first is not known" in report.doubt(told)


def test_a_verdict_says_until_when_the_page_was_watched():
    said = report.scope({**verdict(), "watched_ms": 2345})
    assert said.endswith("The page was watched until 2.3 s after its last answer had ended.")
