"""What a reader gives to the page and takes from it: dropped files, and copied texts."""

import json
from typing import Any

DROP = """([name, bytes]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([new Uint8Array(bytes)], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""
# What a copied test has to quote in Python, JavaScript or JSON.
HARD_TO_QUOTE = "Grüße 日本語 👩‍🚀 `${'it''s'}` \\ \"end\""
COPY = """([id, label]) => new Promise((resolve) => {
  navigator.clipboard.writeText = async (text) => {
    delete navigator.clipboard.writeText;
    resolve(text);
  };
  document.getElementById(id).click();
  for (const one of document.querySelectorAll("#test-forms button"))
    if (one.textContent === label) one.click();
})"""


def drop(page: Any, name: str, data: bytes) -> None:
    page.evaluate(DROP, [name, list(data)])


def copied_report(page: Any) -> str:
    return str(page.evaluate(COPY, ["report", ""]))


def copied_test(page: Any, form: str) -> str:
    """Copy the shown stream as a test, in the form with this label."""
    return str(page.evaluate(COPY, ["copy-test", form]))


def sse(*events: Any) -> bytes:
    """Return a body with these events; a text is the content of one of chat completions. All is
    UTF-8, but half a surrogate pair, which UTF-8 does not have, is escaped.
    """
    body = ""
    for event in events:
        if isinstance(event, str):
            event = {"choices": [{"delta": {"content": event}}]}
        body += f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
    return body.encode(errors="backslashreplace")
