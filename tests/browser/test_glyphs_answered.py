"""`detok check` on pages that have no answer to test, on answers that are pictures, and on what a
page shows after it was quiet.
"""

import re
from http.server import BaseHTTPRequestHandler

import pytest
from local_server import local_server

pytestmark = [pytest.mark.one_browser, pytest.mark.full]

ANSWER = "Great news 🎉! The crew 👩\u200d🚀 has landed. Grüße! Everyone was happy in Köln."
# What each page does when it is asked, and what is said if that is no answer.
ASK = {
    "nothing": ("", "no stream passed the proxy"),
    "error": ("await stream('/error').catch(() => show('Something went wrong'))", "HTTP 500"),
    "empty": ("await stream('/empty')", "was empty"),
    "text": ("show(await stream('/answer'))", ""),
    "canvas": (
        """const text = await stream('/answer'), c = main.appendChild(document.createElement('canvas')), x = c.getContext('2d');
        for (let n = 1; n <= text.length; n++) {
          n % 2 ? x.clearRect(0, 0, 300, 150) : (c.width = 300);
          for (let i = 0; i < n; i += 16) x.fillText(text.slice(i, Math.min(n, i + 16)), 4, 20 + i);
        }""",
        "",
    ),
    "pictures": (
        """const text = await stream('/answer');
        for (const [part] of text.matchAll(/\\p{Extended_Pictographic}(\\u200d\\p{Extended_Pictographic})*|./gsu))
          if (/\\p{Extended_Pictographic}/u.test(part)) main.append(Object.assign(new Image(9, 9), { alt: part }));
          else main.append(part);""",
        "",
    ),
}
# What a page does when its answer has ended, the rule that it breaks, and what is said of it.
AFTER = {
    "bubbles": (
        "main.innerHTML = `<p>Bot: <i>${text}</i> Copy</p>`.repeat(2)",
        "duplicated-text",
        "one copy behind the other",
    ),
    # An older answer stands above, a screen reader gets a copy, and a timer is set for ever.
    "clean": (
        """main.insertAdjacentHTML('beforeend', '<div aria-live=polite style="position: absolute; width: 1px; height: 1px; overflow: hidden">');
        main.lastChild.textContent = text; const poll = () => setTimeout(poll, 1000); poll();""",
        "",
        r"The page was watched until \d+\.\d s after its last answer",
    ),
    "second": (
        "setTimeout(async () => show((await stream('/answer')) + '\\ufffd'), 1500)",
        "ufffd-persistent",
        "",
    ),
    "list": (
        "for (let n = 0; n < text.length; n += 20) { main.textContent = text.slice(n, n + 20); await paint(); }",
        "dropped-text",
        "It was in the document, and was taken out again.",
    ),
    "clear": (
        "main.style.opacity = 0",
        "dropped-text",
        "no reader can see it there: opacity: 0.",
    ),
}
ASK |= {
    name: (f"const text = await stream('/answer'); show(text); await paint(); {act}", "")
    for name, (act, *_) in AFTER.items()
}
PAGE = """<!doctype html><meta charset=utf-8><title>chat</title><link rel=icon href=data:,>
<main></main><textarea></textarea><script type=module>
const main = document.querySelector("main"), field = document.querySelector("textarea");
const show = (text) => main.append(text);
const paint = () => new Promise((go) => requestAnimationFrame(() => setTimeout(go, 50)));
const stream = async (path) => {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(answer.status);
  return answer.text();
};
const ask = async () => { ASK };
field.onkeydown = (e) => {
  if (e.key !== "Enter") return;
  e.preventDefault();
  main.append(Object.assign(document.createElement("p"), { textContent: field.value }));
  field.value = "";
  ask();
};
if (location.search === "?auto") ask();
</script>"""


class Chat(BaseHTTPRequestHandler):
    def do_GET(self):
        """Serve a page below /page/, and streams elsewhere."""
        _, _, name = self.path.partition("?")[0].partition("/page/")
        body = PAGE.replace("ASK", ASK[name][0]) if name else ""
        if name == "clean":
            body = body.replace("<main>", f"<p>{ANSWER}</p><main>")
        if self.path == "/answer":
            body = ANSWER
        self.send_response(500 if self.path == "/error" else 200)
        self.send_header("content-type", f"text/{'html' if name else 'plain'}; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture(scope="module")
def chat():
    with local_server(Chat) as server:
        yield f"{server.url}/page"


@pytest.mark.parametrize("name", [name for name, (_, said) in ASK.items() if said])
def test_a_page_without_an_answer_is_not_clean(check, chat, name):
    said = ASK[name][1]
    cut = check(f"{chat}/{name}", "--prompt", "hello", "--split", "every-byte")
    assert cut.code == 2 and said in cut.out, cut
    assert cut.out.startswith(f"No answer was tested on {chat}/{name}:\n")
    plain = check(f"{chat}/{name}", "--prompt", "hello")
    assert plain.code == 2, plain
    assert ("HTTP 500" if name == "error" else "nothing new but the prompt") in plain.out
    assert check(f"{chat}/{name}", "--prompt", "hello", "--ignore", "no-answer").code == 0


def test_a_page_that_asks_by_itself_and_gets_an_error_is_not_clean(check, chat):
    done = check(f"{chat}/error?auto")
    assert done.code == 2 and "HTTP 500" in done.out, done


@pytest.mark.parametrize("name", ["text", "canvas", "pictures"])
def test_text_on_a_canvas_and_emoji_as_pictures_count_as_shown(check, chat, name):
    done = check(f"{chat}/{name}", "--prompt", "hello", "--split", "every-byte")
    assert done.code == 0, done
    assert "The text was compared with what was sent" in done.out


@pytest.mark.parametrize("name", AFTER)
def test_what_a_page_does_after_the_end_of_its_answer_is_judged(check, chat, name):
    done = check(f"{chat}/{name}", "--prompt", "hello", "--split", "none")
    _, rule, said = AFTER[name]
    assert done.code == (1 if rule else 0), done
    assert not rule or f"  {rule} (" in done.out, done
    assert re.search(said, done.out), done
