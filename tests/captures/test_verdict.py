"""Who broke a stream: each rule by a file in the shape of the servers that it is about."""

import json
import re
from typing import Any

import pytest
from recordings import (
    compact,
    delta,
    finish,
    judged,
    response,
    shown,
    socket_har,
    sse,
    tgi,
    unended,
    usage,
    whole,
)
from stream_samples import STREAMS

from detok_py.captures.mojibake import CAUSES, CONSOLE
from detok_py.captures.page import capture_text
from detok_py.captures.rules import LESS


def token(text: str, name: str, data: bytes) -> Any:
    """An event of vLLM with log probabilities."""
    event = delta(text)
    event["choices"][0]["logprobs"] = {"content": [{"token": name, "bytes": list(data)}]}
    return event


HI = token("Hi ", "Hi ", b"Hi ")
KA, MI = token("", "�", b"\xf0\x9f"), token("", "�", b"\x9a\x86")


def counted(total: int) -> str:
    """The last line of Ollama, with its count of tokens."""
    return json.dumps({"response": "", "done": True, "eval_count": total}) + "\n"


def padded(text: str, padding: str) -> Any:
    return {**delta(text), "obfuscation": padding}


def made(seconds: float, text: str) -> str:
    """A line of Ollama with the time at which it was made."""
    time = f"2026-11-26T07:00:0{seconds}Z"
    return json.dumps({"created_at": time, "response": text, "done": False}) + "\n"


ONE_BY_ONE = [
    HI,
    token("�", "�", b"\xe4\xbd"),
    token("�", "�", b"\xa0"),
    token("好", "好", "好".encode()),
    token("�", "�", b"\xf0\x9f"),
    token("�!", "�!", b"\x98\x80!"),
]
HALF = '{"choices":[{"delta":{"content":"a\\ud83d"}}]}'
GO = '{"choices":[{"delta":{"content":"a\\ufffdb"}}]}'
CAFE = sse(delta("naïve "), delta("caf"), delta("é"))

CESU = b"\xed\xa0\xbd\xed\xba\x86"  # the halves of \U0001f686
# name: the file, and who, rule, and what arrived with what is right, for each place
CASES: dict[str, tuple[Any, list[Any]]] = {
    "tokens decoded alone": (sse(*ONE_BY_ONE), [("engine", "token-alone", [("��", "你"), ("��!", "😀!")])]),
    "held until whole": (sse(HI, token("", "�", b"\xe4\xbd"), token("你", "�", b"\xa0")), []),
    "a whole token": (sse(HI, token("��", "你", "你".encode()), token("好", "好", "好".encode())), [("proxy", "whole-token", [("��", "你")])]),
    "bytes of lossy names": (sse(HI, token("", "�", "�".encode()), token("你", "�", "�".encode())), []),
    "seam": (sse(delta("né"), delta("�"), delta("�"), delta("ok")), [("engine", "seam", [("�", ""), ("�", "")])]),
    "halves as bytes, late": (sse(*[delta(f"né {one}") for one in "abcdef"], delta("né 🚆"), delta("né 🚆")).encode().replace("🚆".encode(), CESU), [("engine", "cesu", [("né " + 6 * "�", ""), ("né " + 6 * "�", "")])]),
    "a number that is missing before an empty text": (sse(*[{"index": n, "token": {"id": n, "text": text}, "generated_text": all_} for n, text, all_ in ((1, "né", None), (2, " a", None), (4, "", None), (5, " c", None), (6, "!", "né a b c!"))]), [("proxy", "lost", [("", " b")])]),
    "inside": (sse(delta("né"), delta("a��b"), delta("ok"), finish("stop"), usage(4)), [("proxy", "inside", [("a��b", "")])]),
    "a text on broken characters": (sse(delta("né"), delta("mojibake: a��b"), delta("c�"), delta("�d"), finish("stop"), usage(5)), [("unknown", "maybe", [("mojibake: a��b", ""), ("c�", ""), ("�d", "")])]),
    "a quoted �": (sse(delta("né “�”"), delta("c�"), delta("�d")), [("unknown", "maybe", [("né “�”", ""), ("c�", ""), ("�d", "")])]),
    "inside a token with an id": (sse(tgi("né"), tgi("a��b")), [("proxy", "inside", [("a��b", "")])]),
    "inside an event of many tokens": (sse(delta("né"), delta("a��b"), delta("ok"), finish("stop"), usage(9)), [("unknown", "beside", [("a��b", "")])]),
    "inside an event of who knows how many": (sse(delta("né"), delta("a��b"), delta("ok")), [("unknown", "beside", [("a��b", "")])]),
    "joined": (sse(delta("né"), delta("you"), delta("!")).replace('"you', '\n"you'), [("unknown", "joined", [("", "")])]),
    "one alone": (sse(delta("né"), delta("a�b")), [("unknown", "maybe", [("a�b", "")])]),
    "Go's escape": (sse(delta("né"), GO), [("engine", "escaped", [("a�b", "")])]),
    "all is escaped": (sse(delta("né"), GO, escaped=True), [("unknown", "maybe", [("a�b", "")])]),
    "half a pair": (sse(delta("né"), HALF, delta("ok")), [("engine", "half", [("a�", "")])]),
    "a byte is lost": (sse(delta("né"), delta("a é b")).encode().replace(b" \xc3\xa9 ", b" \xc3 "), [("unknown", "raw", [("a � b", "")])]),
    "saved as Latin-1": (CAFE.encode("latin-1"), [("unknown", "raw-all", [("na�ve ", ""), ("�", "")])]),
    "bytes in two events": (sse(delta("n"), delta("a X"), delta("Y b")).encode().replace(b"X", b"\xc3").replace(b"Y", b"\xa9"), [("engine", "raw-seam", [("a �", ""), ("� b", "")])]),
    "no charset": (CAFE.encode().decode("latin-1"), [("client", "misread", [("Ã¯", "ï"), ("Ã©", "é")])]),
    "PowerShell": (b"\xff\xfe" + CAFE.encode().decode("cp437").encode("utf-16-le"), [("client", "misread", [("├»", "ï"), ("├⌐", "é")])]),
    "the limit of tokens": (sse(HI, token("", "�", b"\xe4\xbd"), {"choices": [{"delta": {}, "finish_reason": "length"}]}), [("nobody", "cut-length", [("�", "")])]),
    "the end is missing": (sse(HI, token("", "�", b"\xe4\xbd")), [("unknown", "cut", [("�", "")])]),
    "the model ends it": ('{"detok":1}\n[0,"t",[[7,"5L0="]]]\n[0.1,"j",{"type":"finished","reason":"eos"}]\n', [("nobody", "cut-model", [("�", "")])]),
    "it is stopped": ('{"detok":1}\n[0,"t",[[7,"5L0="]]]\n[0.1,"j",{"type":"finished","reason":"cancelled"}]\n', [("nobody", "cut-stopped", [("�", "")])]),
    "the model's bytes": ('{"detok":1}\n[0,"t",[[1,"w3g="]]]\n[0.1,"t",[[2,"77+9"]]]\n', [("nobody", "model", [("�x", "")]), ("nobody", "written", [("�", "")])]),
    "tokens without their text": (sse(HI, KA, MI, token("ok", "ok", b"ok"), finish("stop")), [("engine", "dropped", [("", "🚆")])]),
    "a space is left out": (sse(HI, token("", " ", b" "), token("ok", "ok", b"ok"), finish("stop")), [("unknown", "left-out", [("", " ")])]),
    "the end is held back": (sse(HI, KA, MI, finish("stop")), [("engine", "missing", [("", "🚆")])]),
    "a stop string is taken away": (sse(HI, token("", "###", b"###"), finish("stop")), []),
    "the token that ends it": (sse(HI, token("", "<|eot|>", b"<|eot|>"), finish("length")), []),
    "no text at the limit": (sse(HI, token("", "ok", b"ok"), finish("length")), [("unknown", "left-out", [("", "ok")])]),
    "halves in two events": (sse('{"choices":[{"delta":{"content":"a\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude86b"}}]}', finish("stop")), [("engine", "parted", [("\\ud83d + \\ude86", "🚆")])]),
    "a � at the limit": (sse(delta("a"), delta("b�"), finish("length")), [("unknown", "cut-text", [("b�", "")])]),
    "a � at the end": (sse(delta("a"), delta("b�"), finish("stop")), [("unknown", "maybe", [("b�", "")])]),
    "the whole text has more": (sse(tgi(" a "), tgi(""), tgi("b", "a 🚆 b")), [("unknown", "pieces-lack", [("", "🚆 ")])]),
    "the whole text is right": (sse(tgi(" 好"), tgi("�"), tgi("�"), tgi("b", "好 🚆b")), [("engine", "seam-known", [("��", " 🚆"), ("�", "")])]),
    "the whole text came twice": (sse(tgi("好"), tgi("�"), tgi("�b", "好🚆b"), tgi("", "好🚆b")), [("engine", "seam-known", [("��b", "🚆b"), ("�b", "")])]),
    "the whole text has the character": (sse(response(1, "a"), response(2, "b�é"), whole(3, "ab🚆é")), [("unknown", "known", [("b�é", "b🚆é")])]),
    "the whole text has a \ufffd": (sse(response(1, "a"), response(2, "b�é"), whole(3, "ab�é")), [("unknown", "maybe", [("b�é", "")])]),
    "the whole text is shorter": (sse(tgi("a"), tgi("b"), tgi("###", "ab")), []),
    "a time came again": (made(0.1001, "né") + 2 * (made(0.1002, "a") + made(0.1003, "b")), [("proxy", "again", [("a", ""), ("b", "")])]),
    "a laugh": (made(0.1001, "ha") + made(0.1001, "ha") + made(0.1002, "ha"), []),
    "a coarse clock": (2 * (made(0.1, "ha") + made(0.2, "ho")), []),
    "halves in two printed values": ("\n".join(repr(delta(text)) for text in ("né", "a\ud83d", "\ude86b")), [("engine", "parted", [("\\ud83d + \\ude86", "🚆")])]),
    "each event came twice": (sse(*[one for text in "abcd" for one in [delta(text)] * 2]), [("proxy", "doubled", [(letter, "") for letter in "abcd"])]),
    "texts that came twice, with one end": (sse(*[one for text in "abcd" for one in [delta(text)] * 2], finish("stop")), []),
    "a time that goes back": (made(0.1001, "né") + made(0.1003, "b") + made(0.1002, "a") + made(0.1004, "c"), [("proxy", "order", [("a", "")])]),
    "a clock that was set back": (made(0.2001, "né") + made(0.1002, "a") + made(0.1003, "b"), []),
    "a time that came again at once": (made(0.1001, "ha") + 2 * made(0.1002, "ho") + counted(2), [("proxy", "again", [("ho", "")])]),
    "a time for two tokens": (made(0.1001, "ha") + 2 * made(0.1002, "ho") + counted(3), []),
    "a padding that came again": (sse(padded("a", "k1Qz81"), *[padded("né", "k2Qz81")] * 2), [("proxy", "again", [("né", "")])]),
    "a short padding": (sse(padded("a", "k1"), *[padded("né", "k2")] * 2), []),
    "marks of their own": (sse(response(1, "Cafe\u0301"), response(2, " zu"), whole(3, "Café zu")), [("unknown", "forms", [("Cafe\u0301", "Café")])]),
    "letters that an encoding lacks": (sse(delta("Gr??e aus"), delta(" M?n"), delta("chen!")), [("unknown", "asked", [("Gr??e aus", ""), (" M?n", "")])]),
    "words that an encoding lacks": (sse(delta("????"), delta("?????? 20")), [("unknown", "asked", [("????", ""), ("?????? 20", "")])]),
    "questions": (sse(delta("Why?? A?B:C, x?.y ??? "), delta("https://a.example/?b=c?d")), []),
    "one word of question marks": (sse(delta("Really ??? Yes?")), []),
    "read as GBK": (sse(delta("浣犲ソ锛屼笘鐣�"), delta(" ok "), delta("銆傝繖鏄�")), [("client", "misread-east", [("浣犲ソ锛屼笘鐣�", ""), ("銆傝繖鏄�", "")])]),
    "read as Shift_JIS": (sse(delta("縺薙ｓ縺ｫ"), delta("縺｡縺ｯ")), [("client", "misread-east", [("縺薙ｓ縺ｫ", ""), ("縺｡縺ｯ", "")])]),
    "� read as GBK": (sse(delta("锟斤拷")), [("client", "misread-east", [("锟斤拷", "")])]),
    "Chinese": (sse(delta("这是一枚芯片，涓涓细流。")), []),
    "about mojibake": (sse(delta("“锟斤拷” 是乱码。")), []),
    "the second part of an answer": (sse(response(7, "cd"), response(8, "e"), whole(9, "abcde")), [("unknown", "part", [("", "ab")])]),
    "a piece came twice": (sse(response(0, "ab"), response(0, "ab"), response(0, "c"), whole(0, "abc")), [("unknown", "repeated", [("ab", "")])]),
    "pieces are others": (sse(response(0, "ab"), response(0, "xyz"), whole(0, "abcd")), [("unknown", "differs", [("xyz", "cd")])]),
    "numbers are missing": (sse(response(1, "ab"), response(2, "c"), response(4, "e"), whole(5, "abcde")), [("proxy", "lost", [("", "d")])]),
    "a number came twice": (sse(response(1, "ab"), response(2, "c"), response(2, "c"), response(3, "e"), whole(4, "abce")), [("proxy", "twice", [("c", "")])]),
    "numbers in another order": (sse(response(1, "ab"), response(3, "yz"), response(2, "c"), response(4, "e"), whole(5, "abcyze")), [("proxy", "order", [("yzc", "cyz")])]),
    "numbers that came twice together": (sse(*[response(n, chr(97 + n) + "-") for n in (0, 1, 2, 3, 1, 2, 3, 4)], whole(5, "a-b-c-d-e-")), [("proxy", "twice", [("b-", ""), ("c-", ""), ("d-", "")])]),
    "pieces that came again together": (sse(*[response(0, one) for one in ("a-", "b-", "c-", "b-", "c-", "d-")], whole(0, "a-b-c-d-")), [("unknown", "repeated", [("b-c-", "")])]),
    "more than a whole text has": (sse(response(0, "ab"), response(0, "xb"), response(0, "c"), whole(0, "abc")), [("unknown", "differs", [("xb", "")])]),
    "a number is missing, others change places": (sse(*[response(n, chr(97 + n)) for n in (0, 1, 3, 4, 6, 5, 7)], whole(8, "abcdefgh")), [("proxy", "lost", [("", "")]), ("proxy", "order", [("f", "")])]),
    "numbers without a whole text": (sse(response(1, "ab"), response(2, "c"), response(2, "c"), response(3, "d"), response(5, "f")), [("proxy", "twice", [("c", "")]), ("proxy", "lost", [("", "")])]),
    "TGI's numbers": (sse({**tgi("a"), "index": 1}, {**tgi("é"), "index": 2}, {**tgi("é"), "index": 2}, {**tgi("b"), "index": 3}, {**tgi("c", "aébc"), "index": 4}), [("proxy", "twice", [("é", "")])]),
    "messages of a socket": (socket_har("né �", "� ok"), [("unknown", "seam-of-messages", [("né �", ""), ("� ok", "")])]),
    "messages of a socket, whole": (socket_har("né 🚆", " ok"), []),
    "SGLang repeats a �": (sse({"text": "a �", "meta_info": {}}, {"text": "a 🚆", "meta_info": {}}, {"text": "a 🚆", "meta_info": {"finish_reason": {"type": "stop"}}}), []),
    "SGLang keeps a �": (sse({"text": "a �", "meta_info": {}}, {"text": "a ��b", "meta_info": {"finish_reason": {"type": "stop"}}}), [("unknown", "maybe", [("��b", "")])]),
    "CESU-8": (sse(delta("né 🚆")).encode().replace("🚆".encode(), b"\xed\xa0\xbd\xed\xba\x86"), [("engine", "cesu", [("né ������", "")])]),
    "half of CESU-8": (sse(delta("é"), delta("né 🚆")).encode().replace("🚆".encode(), b"\xed\xa0\xbd"), [("unknown", "raw", [("né ���", "")])]),
    "Latin-1 at the borders": (sse(delta("Grü"), delta("ße für "), delta("Köln")).encode("latin-1"), [("unknown", "raw-all", [("Gr�", ""), ("�e f�r ", ""), ("K�ln", "")])]),
    "misread with losses": (sse(delta("naÃ¯ve å¤§ cafÃ© ã�§")), [("client", "misread", [("Ã¯", "ï"), ("å¤§", "大"), ("Ã©", "é"), ("ã�§", "�")])]),
    "the only piece is a part": (sse(response(1, "Gute "), whole(2, "Gute Fahrt")), [("unknown", "pieces-lack", [("", "Fahrt")])]),
    "reasoning with the tokens of both": (sse({"choices": [{"delta": {"reasoning_content": "hm"}, "logprobs": {"content": [{"token": "hm", "bytes": [104, 109]}]}}]}, token("", "</think>", b"</think>"), token("né", "né", "né".encode()), finish("stop")), []),
    "misread twice": (sse(delta("GrÃƒÂ¼ÃƒÅ¸e")), [("client", "misread", [("ÃƒÂ¼ÃƒÅ¸", "üß")])]),
    "a number is missing before the last event": ("".join(f"id: {n}\n{unended(delta(f'{n} '))}" for n in range(1, 12)) + "id: 14\n" + sse(finish("stop")), [("proxy", "lost", [("", "")])]),
    "names of bytes": (sse(*map(delta, ["Das ", "<0xE9>", "<0xAF>", "<0xB1>", "ist"]), finish("stop")), [("engine", "named-bytes", [("<0xE9><0xAF><0xB1>", "鯱")])]),
    "names of bytes, several in an event": (sse(*map(delta, ["a", "<0x0A>", "b", "<0xF0><0x9F>", "<0x98><0x80>"]), finish("stop")), [("engine", "named-bytes", [("<0x0A>", "\n"), ("<0xF0><0x9F><0x98><0x80>", "😀")])]),
    "entries of a byte-level vocabulary": (sse(*map(delta, ["Die", "ĠStra", "ÃŁe", "Ġist", "Ġda"]), finish("stop")), [("engine", "named-spaces", [("ĠStra", " Stra"), ("ÃŁe", "ße"), ("Ġist", " ist"), ("Ġda", " da")])]),
    "entries of SentencePiece": (sse(*map(delta, ["▁Ja", "▁und", "▁nein"]), finish("stop")), [("engine", "named-spaces", [("▁Ja", " Ja"), ("▁und", " und"), ("▁nein", " nein")])]),
    "the name of a byte in code": (sse(*map(delta, ["Write ", "`<0xE9>`", " for a byte"]), finish("stop")), []),
    "the name of a byte that is no character": (sse(*map(delta, ["<0xE9>", " is", " half"]), finish("stop")), []),
    "about entries of a vocabulary": (sse(*map(delta, ["In GPT-2, ", "Ġ", " is a space: ", "Ġa, ", "Ġb"]), finish("stop")), []),
    "few signs of spaces": (sse(*map(delta, ["▁Ja", "▁"]), finish("stop")), []),
    "a line of signs of spaces": (sse(*map(delta, ["x▁▁", "▁▁▁", "▁▁y"]), finish("stop")), []),
    "a token with signs of spaces in it": (sse(*map(delta, ["<｜place", "▁holder▁", "no▁1｜>", "▁"]), finish("stop")), []),
    "words with signs of spaces in them": (sse(*map(delta, ["▁so▁wie", "▁Ja", "▁und", "▁nein"]), finish("stop")), []),
    "events that changed places twice": (sse(*[response(n, chr(97 + n)) for n in (0, 2, 1, 3, 4, 7, 6, 5, 8)], whole(9, "abcdefghi")), [("proxy", "order", [("b", ""), ("g", "")])]),
    "misread characters beside each other": (sse(delta("C’était l’été".encode().decode("cp1252")), finish("stop")), [("client", "misread", [(one.encode().decode("cp1252"), one) for one in ("’é", "’é", "é")])]),
    "bytes of a �": ('{"detok":1}\n[0,"b","77+9"]\n', [("unknown", "written-bytes", [("�", "")])]),
    "bytes of nobody": ('{"detok":1}\n[0,"b","w3g="]\n', [("unknown", "bytes", [("�x", "")])]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_who_broke_it_is_said_with_the_rule_the_place_and_the_right_text(name):
    data, expected = CASES[name]
    found = judged(data)
    told = [
        (who, rule, [(got, right) for _, got, right, *_ in places])
        for who, rule, _, places, *_ in found["verdicts"]
    ]
    assert told == expected
    assert all(said and count == len(places) for _, _, said, places, count, _ in found["verdicts"])
    # What is in a verdict is nowhere else.
    assert found["problems"] == []


def test_what_a_client_tore_at_a_byte_of_latin_1_is_said_where_lines_were_joined():
    body = sse(delta("naïve "), delta("Ålso"), delta("é")).encode().decode("latin-1")
    torn = judged("\n".join(body.replace("\x85", "\n").split("\r\n")))
    said = {one[1]: one[2] for one in torn["verdicts"]}
    assert said["joined"].endswith("its character is not counted among the misread.")
    assert "misread" in said
    joined = {one[1]: one[2] for one in judged(CASES["joined"][0])["verdicts"]}["joined"]
    assert joined.endswith("if the server sent it so, clients lose the event. Lines 3–4.")


def test_one_sentence_says_who_broke_the_stream():
    said = {name: judged(data)["verdict"] for name, (data, _) in CASES.items()}
    assert said["tokens decoded alone"] == "The engine broke 2 places."
    unknown = "In 1 place, it is not known who broke the text, or whether anyone did."
    assert said["one alone"] == unknown
    assert said["a space is left out"] == "It is broken in 1 place; by whom is not known."
    assert said["held until whole"] == "Nobody broke anything: every character is whole."
    assert said["the limit of tokens"].startswith("Nobody broke anything. The answer ended inside")
    both = judged(sse(delta("a��b"), delta("né"), delta("�"), delta("�"), usage(4)))
    assert both["verdict"] == (
        "The engine broke 2 places, unless the model wrote the � itself. "
        "A proxy, or what recorded it, broke 1 place."
    )
    ((_, _, latin, _, _, _),) = judged(CASES["saved as Latin-1"][0])["verdicts"]
    assert latin.endswith("Read as Windows-1252, its text is: “naïve café”.")
    # It knows no more than its rule.
    assert said["a byte is lost"] == "It is broken in 1 place; by whom is not known."
    client = "The server, a proxy, a client, or what recorded it, broke 2 places."
    assert said["no charset"] == client
    for name in ("numbers are missing", "a number came twice", "numbers in another order"):
        assert said[name] == "The server, a proxy, or what recorded it, broke 1 place."
    for name in ("Go's escape", "half a pair", "halves in two events", "CESU-8"):
        assert said[name] == "The engine, or a gateway, broke 1 place."
    assert said["inside an event of who knows how many"] == unknown
    text = judged(sse(delta("né")))["verdict"]
    assert text.startswith("Nothing broken was found in it. It is the server's own text")


def test_the_places_of_misread_text_are_rows_and_utf16_units():
    found = judged(sse(delta("😀 naÃ"), delta("¯ve cafÃ©")))
    (verdict,) = found["verdicts"]
    assert verdict[2].startswith(CAUSES["Latin-1 or Windows-1252"])
    assert verdict[3] == [[0, "Ã¯", "ï", 5, 6], [1, "¯", "", 0, 1], [1, "Ã©", "é", 7, 9]]
    assert CONSOLE not in verdict[2]
    assert verdict[4] == 2  # what goes on in the next event is one place


def test_a_saved_stream_keeps_the_verdict_on_the_text_that_is_not_in_it():
    found = judged(sse(*ONE_BY_ONE))
    saved = [one[:5] for one in found["verdicts"]]
    header = {**found["header"], "verdicts": saved}
    rows = [[row[0], *row[1][:2], row[6]] for row in found["rows"]]
    made = {"header": header, "rows": rows, "seconds": 0}
    again = judged(json.loads(capture_text(json.dumps(made))))
    assert (again["verdict"], again["verdicts"]) == (found["verdict"], found["verdicts"])
    for wrong in (5, [[]], [["engine", "seam", "", [], 1]], [["moon", "seam", "", [[0, "", "", 0, 0]], 1]],
                  [["engine", "seam", "", [[99, "", "", 0, 0]], 1]], [["engine", "seam", "", [["x", "", "", 0, 0]], 1]]):  # fmt: skip
        made["header"]["verdicts"] = wrong
        again = judged(json.loads(capture_text(json.dumps(made))))
        assert again["verdict"] == "Nobody broke anything: every character is whole."
    # An earlier version called it a proxy's; a later one may say more.
    made["header"]["verdicts"] = [["proxy", "raw", "Bytes.", [[0, "", "", 0, 0]], 1, "more"]]
    again = judged(json.loads(capture_text(json.dumps(made))))
    assert [one[:3] for one in again["verdicts"]] == [["unknown", "raw", "Bytes."]]


def test_a_verdict_says_what_its_rule_knows_less_than_who_it_was():
    less = {one[1]: one[5] for data, _ in CASES.values() for one in judged(data)["verdicts"]}
    assert (less["seam"], less["lost"], less["half"]) == ("model", "sender", "gateway")
    assert less["inside"] == "recorder"
    assert (less["misread"], less["maybe"], less["cut-text"]) == ("reader", "doubt", "doubt")


def test_an_answer_without_an_end_is_not_called_whole():
    begun = unended(delta("né"))
    cut = judged(begun)["verdict"]
    assert cut.startswith(
        "It stops before its end: the server did not say that the answer is over."
    )
    for end in (sse(), unended(finish("stop"))):
        said = judged(begun + end)["verdict"]
        assert said.startswith("Nothing broken was found in it. It is the server's own text:")
    line = json.dumps({"model": "m", "response": "né", "done": False})
    assert judged(line + "\n" + line)["verdict"].startswith("It stops before its end")
    # A value that is no stream is whole, and some servers say nothing at the end.
    assert "stops" not in judged(json.dumps(delta("né")))["verdict"]
    assert "stops" not in judged(sse({"text_output": "né", "model_name": "m"}))["verdict"]


def test_what_could_not_be_read_is_in_the_sentence():
    body = sse(delta("né"), delta("and more"), finish("stop"))
    cut = judged(body.replace("and more", "and\n\nmore"))["verdict"]
    assert cut.startswith(
        "1 event breaks off or cannot be read (line 3): its text is missing. Nothing else broken"
    )
    assert "Nothing broken was" not in cut
    part = sse(delta("a"), delta("né")).encode()
    assert "(line 3, inside a character)" in judged(part[: part.index(b"\xa9")])["verdict"]
    page = "<html>\n<head><title>502 Bad Gateway</title></head>\n</html>\n"
    assert judged(unended(delta("né")) + page)["verdict"] == (
        "It stops before its end: the server did not say that the answer is over. In line 3, an "
        "HTML page, “502 Bad Gateway”, comes in place of the rest: a proxy gave up. Nothing else "
        "broken was found in it."
    )
    curl = "curl: (18) transfer closed with 9 bytes remaining to read"
    assert f"In line 3, curl says: “{curl}”." in judged(unended(delta("né")) + curl)["verdict"]
    packet = "10:00:00.1 IP localhost.80 > localhost.5: Flags [P.], length 9\n"
    said = judged(packet + body.replace("é", ".."))
    assert said["verdict"].startswith("Whether anything broke cannot be seen")
    assert "tcpdump -A" in said["problems"][0][1] + said["problems"][-1][1]


def test_lines_of_an_event_that_were_joined_are_named():
    data = CASES["joined"][0]
    assert "Nothing broken was" not in judged(data)["verdict"]
    # Its row is found also behind many that are read together.
    many = [delta(f"x{n}") for n in range(40)]
    (verdict,) = judged(unended(*many) + data)["verdicts"]
    assert (verdict[2][-12:], verdict[3][0][0]) == ("Lines 83–84.", 41)


def test_lines_that_a_console_broke_at_its_width_are_nobodys_fault():
    events = [delta("né"), delta("日本語のテキスト"), delta("and a longer text"), finish("stop")]
    lines = []
    for line in sse(*map(compact, events)).split("\n"):
        row, width = "", 0
        for letter in line:
            size = 2 if letter > "\u2e80" else 1
            if width + size > 36:
                lines.append(row)
                row, width = "", 0
            row, width = row + letter, width + size
        lines.append(row)
    found = judged("\n".join(lines))
    (verdict,) = found["verdicts"]
    assert verdict[:2] == ["nobody", "wrapped"]
    assert found["verdict"].startswith("Nothing broken was found in it.")
    said = "A console broke lines at its width; they were joined here. Lines 1–2, 4–5"
    assert said in found["verdict"]
    # One line in the file that is wider, and it was no console.
    wide = sse(delta("a text that is wider than the others"))
    (verdict,) = judged(wide + "\n".join(lines))["verdicts"]
    assert verdict[:2] == ["unknown", "joined"]


def test_a_piece_of_json_that_a_console_broke_off_is_no_event_behind_a_prefix():
    line, other = (f"data: {json.dumps(delta(text))}" for text in ("né", "you"))
    for at in (line.index(' {"content'), line.index('{"content'), line.index('ta": {"con')):
        found = judged(f"{line[:at]}\n{line[at:]}\n\n{other[:at]}\n{other[at:]}\n\ndata: [DONE]\n")
        assert [bytes.fromhex(row[1][1]).decode() for row in found["rows"]] == ["né", "you"]
        assert found["problems"] == []
    log = 'INFO chat: {"model":"m","response":"né","done":true}\n'
    assert judged(log)["rows"][0][1][1] == "né".encode().hex()


def test_an_event_that_came_again_is_known_by_its_id_or_by_its_count():
    words = ["La ", "pluie", " tombe", " ici"]
    lines = [f"id: {n}\ndata: {json.dumps(delta(word))}\n\n" for n, word in enumerate(words)]
    again = judged("".join(lines[:3] + lines[1:] + ["data: [DONE]\n\n"]))
    ((who, rule, _, places, count, less),) = again["verdicts"]
    assert (who, rule, count, less) == ("proxy", "twice", 2, "sender")
    assert [place[:2] for place in places] == [[3, "pluie"], [4, " tombe"]]
    # The same words by themselves, ids of an answer, or ids that stand for several events.
    assert judged("".join(lines[:3] + [lines[1].replace("id: 1", "id: 9")]))["verdicts"] == []
    assert judged("".join(lines).replace("id: 1", "id: 0"))["verdicts"] == []

    def count_of(number: int, text: str) -> Any:
        return {"content": text, "tokens": [number], "stop": False, "tokens_predicted": number}

    end = {"content": "", "tokens": [], "stop": True, "tokens_predicted": 3}
    twice = judged(sse(count_of(1, "ha"), count_of(2, " ha"), count_of(2, " ha"), end))
    assert [(one[1], one[4]) for one in twice["verdicts"]] == [("twice", 1)]
    for good in ([count_of(1, "ha"), count_of(2, " ha"), count_of(3, " ha"), end],
                 [count_of(1, "ha"), end] * 2,
                 [count_of(2, "a"), count_of(2, "b"), count_of(4, "ha"), count_of(4, "ha"), end]):  # fmt: skip
        assert judged(sse(*good))["verdicts"] == []


def test_a_line_of_a_log_is_no_part_of_the_event_before_it():
    event = compact(delta("Привет"))
    lines = f"data: {event[:-12]}\n2026-11-25 10:00:01,120 DEBUG client recv:\n\n"
    found = judged(lines + sse(delta("!"), finish("stop")))
    assert shown(found) == "!"
    assert found["notes"].startswith("1 event breaks off or cannot be read (line 1)")


def test_an_event_with_two_faults_is_one_place():
    event = 'data: {"choices":[{"delta":{"content":"a\ufffd\n\ufffdb"}}]}\n\n'
    found = judged(sse(delta("né")) + 3 * event)
    assert [(one[1], one[4]) for one in found["verdicts"]] == [("beside", 3), ("joined", 3)]
    assert found["verdict"].startswith("In 3 places, it is not known who broke the text")
    many = judged(sse(delta("né")) + 300 * event)
    assert many["verdict"].startswith("In 300 places,")
    assert [len(places) for _, _, _, places, _, _ in many["verdicts"]] == [200, 200]


def test_a_misread_line_among_right_ones_is_in_doubt():
    quoted = ["Für Größe", " steht da:\n", "GrÃ¶Ã", "Ÿe und schÃ¶n"]
    ((who, rule, said, places, count, less),) = judged(sse(*map(delta, quoted)))["verdicts"]
    assert (who, rule, count, less) == ("unknown", "misread-part", 2, "doubt")
    assert "the model may have quoted this one" in said and places[0][2] == "öß"
    # A space is what is left of a no-break space.
    all_ = judged(sse(delta("VoilÃ ! Les Ã©lÃ¨ves"), delta(" sont Ã\xa0 l'Ã©cole")))
    assert [one[1] for one in all_["verdicts"]] == ["misread"]


def test_misread_characters_of_two_events_are_two_places():
    found = judged(sse(delta("lâ€™"), delta("Ã©glise"), delta(" trÃ"), delta("¨s")))["verdicts"]
    ((_, rule, _, places, count, _),) = found
    assert (rule, count) == ("misread", 3)
    assert [place[:3] for place in places] == [
        [0, "â€™", "’"],
        [1, "Ã©", "é"],
        [2, "Ã¨", "è"],
        [3, "¨", ""],
    ]


def test_what_failed_otherwise_is_not_called_whole():
    error = {"error": {"message": "CUDA out of memory"}}
    for last in (error, finish("content_filter")):
        assert "Nothing else broken was found" in judged(sse(delta("né"), last))["verdict"]


def test_the_page_has_words_for_whom_else_a_rule_may_mean():
    page = (STREAMS.parents[2] / "web" / "demo" / "faults.js").read_text("utf-8")
    words = page[page.index("const OR_ELSE = {") :].partition("};")[0]
    assert set(re.findall(r"^  (\w+):", words, re.MULTILINE)) == set(LESS.values())
