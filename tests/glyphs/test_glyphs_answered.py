"""Whether there was an answer to test, from the proxy's streams or from the page."""

from types import SimpleNamespace

import pytest

from detok_py.glyphs import answered, report
from detok_py.glyphs.answered import Missing, by_page, by_proxy, nothing_sent
from detok_py.glyphs.drive import exit_code
from detok_py.glyphs.evidence import Options, Seen
from detok_py.glyphs.options import CheckError, steps_of, text_of_file, true_text
from detok_py.glyphs.traffic import Traffic
from detok_py.glyphs.verdict import verdict
from detok_py.glyphs.watch import GlyphWatch, WatchError

URL = "http://127.0.0.1/chat"
EVENTS = "text/event-stream"


def passed(*streams, failed=()):
    """Why the streams, each a content type and bytes, are no answer."""
    traffic = Traffic("none", 0, None, "fragments")
    for status in failed:
        traffic.note_status(URL, status, {})
    for kind, data in streams:
        answer = traffic.begin(URL, kind)
        list(answer.cut(data))
        answer.sent.flush()
    return by_proxy(traffic, traffic.answers)


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        ([], "no stream passed the proxy"),
        ([("text/plain", b"")], f"the stream of {URL} was empty"),
        ([(EVENTS, b"data: [DONE]\n\n")], f"the stream of {URL} had no text"),
        ([("text/plain", b" \n")], f"the stream of {URL} had no text"),
    ],
)
def test_streams_without_text_are_no_answer(streams, said):
    assert passed(*streams).text == said


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("text/plain", "👋".encode()),
        (EVENTS, b'data: {"of": "no known kind"}\n\n'),
        ("application/json", b'{"of": "no known form"}'),
    ],
)
def test_a_stream_with_text_or_of_an_unknown_kind_is_an_answer(kind, data):
    assert passed((kind, data)) is None


def test_an_error_of_the_engine_is_named_unless_another_answer_passed():
    assert passed(failed=[404, 500]).text == f"{URL} answered HTTP 500"
    assert passed(("application/json", b"{}"), failed=[500]).way == "failed"
    assert passed(("text/plain", b"hi"), failed=[500]) is None


def test_only_an_answer_to_a_script_or_a_server_can_be_an_error_of_the_engine():
    traffic = Traffic("none", 0, None, "fragments")
    traffic.note_status(URL, 404, {"sec-fetch-dest": "image"})
    assert traffic.used and not traffic.failed


def requests(failed=(), succeeded=False):
    return SimpleNamespace(failed=failed, succeeded=succeeded)


@pytest.mark.parametrize(
    ("after", "typed"),
    [("Chat\nhello", ["hello"]), ("Chat", ["hello"]), ("Chat", [""]), ("Chat\na b", ["a", "b"])],
)
def test_a_page_that_shows_only_the_prompt_has_not_answered(after, typed):
    missing = by_page("Chat", after, typed, requests(succeeded=True))
    assert missing.was_asked
    assert missing.text == "the page showed nothing new but the prompt"


@pytest.mark.parametrize("after", ["Chat\nhello\nhello", "Chat\nhello\n👋"])
def test_a_page_that_shows_more_than_the_prompt_has_answered(after):
    assert by_page("Chat", after, ["hello"], requests()) is None


def test_an_error_message_of_the_page_is_no_answer():
    failed = requests(failed=[f"{URL} answered HTTP 500"])
    missing = by_page("Chat", "Chat\nhello\nSomething went wrong", ["hello"], failed, 2.04)
    assert missing.text == f"{URL} answered HTTP 500; waited 2.0 s"
    some = requests(failed=["a picture"], succeeded=True)
    assert by_page("Chat", "Chat\nhello\nhi", ["hello"], some) is None


def test_a_page_that_was_not_asked_and_does_nothing_is_only_said_to_be_untested():
    missing = by_page("Chat", "Chat", [], requests())
    assert not missing.was_asked
    result = verdict(Seen([], URL), Options(missing=missing))
    assert exit_code(result) == 0 and result["passes"] == []
    assert report.scope(result).startswith("No answer was asked for or seen")
    assert by_page("Chat", "Chat", [], requests(succeeded=True)) is None


def test_a_request_is_pending_until_the_page_or_the_proxy_has_all_of_it():
    hears, now = {}, 0.0
    page = SimpleNamespace(on=hears.__setitem__)
    traffic = Traffic("none", 0, None, "fragments")
    requests = answered.Requests(page, lambda: now, 20, traffic)
    first, second = [SimpleNamespace(url=URL, resource_type="fetch") for _ in range(2)]
    hears["request"](first)
    hears["request"](second)
    # The page has read one to `[DONE]`, and does not read on.
    traffic.begin(URL, EVENTS).finished = True
    assert requests.pending
    traffic.begin(URL, EVENTS).finished = True
    assert not requests.pending
    hears["request"](SimpleNamespace(url=URL + "?plain", resource_type="fetch"))
    assert requests.pending
    now = 20.0
    assert not requests.pending


def test_addresses_without_a_host_name_none():
    hears = {}
    requests = answered.Requests(SimpleNamespace(on=hears.__setitem__), lambda: 0.0, 20)
    for url in ("data:text/css,a", "blob:http://127.0.0.1/1", URL):
        hears["request"](SimpleNamespace(url=url, resource_type="fetch"))
    assert requests.hosts == {"127.0.0.1"}


def test_without_an_answer_no_rule_about_glyphs_passes_and_the_exit_code_is_2():
    missing = Missing("no stream passed the proxy", "none", 3.0)
    result = verdict(Seen([], URL), Options(missing=missing))
    assert exit_code(result) == 2 and result["passes"] == []
    said = report.sentence(result)
    why = "no stream passed the proxy; waited 3.0 s."
    assert said.startswith(f"No answer was tested on {URL}:\n  {why}\n")
    assert "--prompt" in said and "--listen" in said
    assert "<failure" in report.as_junit(result)
    ignored = verdict(Seen([], URL), Options(missing=missing, ignore=["no-answer"]))
    assert exit_code(ignored) == 0


def test_a_pass_says_whether_the_text_was_compared():
    known = verdict(Seen([], URL, "hello"), Options(truth="hello"))
    assert "spaces, ASCII punctuation" in report.scope(known)
    assert "was not checked" in report.scope(verdict(Seen([], URL, "hello"), Options()))


def test_an_empty_true_text_is_refused_with_the_reason():
    traffic = Traffic("none", 0, None, "fragments")
    assert "no stream passed the proxy" in nothing_sent(traffic)
    assert "the true text is empty" in nothing_sent(None)


@pytest.mark.parametrize("raw", [b"", b"\n", b" ... \n"])
def test_a_file_without_letters_is_no_true_text(raw):
    with pytest.raises(CheckError, match=r"true\.txt has no text to compare\."):
        true_text(raw, "true.txt")
    assert true_text("é\n".encode(), "true.txt") == "é"


def test_a_script_that_is_not_utf8_is_not_called_the_true_text():
    with pytest.raises(CheckError, match=r"^steps\.json is not UTF-8 at byte 1; it must be\.$"):
        text_of_file(b"[\xff]", "steps.json")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ('[{"fill": null}]', "step 1: fill has no value"),
        ('[{"settle": null}, {"click": null}]', "step 2: click has no value"),
        ('[{"wait": true}]', "wait takes milliseconds"),
    ],
)
def test_a_step_needs_its_value(steps, said):
    with pytest.raises(CheckError, match=said):
        steps_of(steps, "steps.json")


class Error(Exception):
    """As Playwright's: known by its name."""


def watch_of_a_page(said, **options):
    """The watch of a page that answers each script with this error."""

    def evaluate(*_):
        raise Error(said)

    frame = SimpleNamespace(evaluate=evaluate, parent_frame=None, url=URL)
    page = SimpleNamespace(frames=[frame], url=URL, is_closed=lambda: False)
    ignore = lambda *_: None  # noqa: E731
    context = SimpleNamespace(
        pages=[page], browser=None, expose_binding=ignore, add_init_script=ignore
    )
    return GlyphWatch(context, **options)


def test_a_watch_that_is_off_judges_nothing_that_the_proxy_knows():
    watch = watch_of_a_page("nothing is installed", mode="off")
    watch.traffic = Traffic("none", 0, None, "fragments")
    watch.traffic.used = True
    watch.traffic.problems.append("the engine cannot be reached")
    assert watch.expect_clean(max_late=100)["violations"] == []
    list(watch.traffic.begin(URL, "text/plain").cut(b"The answer"))
    assert watch.expect_clean()["violations"] == []


def test_a_page_that_has_crashed_is_said_not_to_answer():
    with pytest.raises(WatchError, match="does not answer: it has crashed"):
        watch_of_a_page("Target crashed").expect_clean()
