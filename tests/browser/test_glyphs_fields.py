"""The field that `detok check` asks a page by: waited for when it comes late, and typed into as a
person does.
"""

import pytest

pytestmark = [pytest.mark.one_browser, pytest.mark.full]


def test_a_field_that_comes_late_is_waited_for(server, judge):
    url = f"{server.url}/late-field.html?manual"
    code, verdict = judge(url, "--prompt", "hello", "--split", "every-byte")
    assert (code, verdict["violations"]) == (0, [])
    assert [stream["finished"] for stream in verdict["streams"]] == [True]


@pytest.mark.parametrize(
    ("page", "answer"),
    [
        pytest.param("tracked-field", "You asked: naïve 漢", id="ignores a value that is only set"),
        pytest.param("editor-field", "You asked with 7 characters: naïve 漢", id="is an editor"),
    ],
)
def test_a_field_gets_the_prompt_and_no_more(server, judge, tmp_path, page, answer):
    (tmp_path / "answer.txt").write_text(answer, encoding="utf-8")
    words = ["--prompt", "naïve 漢", "--text", tmp_path / "answer.txt", "--timeout", "20"]
    code, verdict = judge(f"{server.url}/{page}.html", *words)
    assert (code, verdict["violations"]) == (0, [])


def test_a_page_without_a_field_cannot_get_a_prompt(server, check):
    done = check(f"{server.url}/frame.html", "--prompt", "hello", "--timeout", "3")
    assert (done.code, done.out) == (2, "")
    assert "no field to type into" in done.err


def test_a_field_that_cannot_be_typed_into_is_named(check, tmp_path):
    page = tmp_path / "chat.html"
    page.write_text("<p>Chat<p><textarea id=search readonly>old</textarea>")
    done = check(page.as_uri(), "--prompt", "hello", "--timeout", "30")
    assert (done.code, done.out) == (2, "")
    assert 'into <textarea id="search" readonly="">' in done.err and "--script" in done.err
