"""The samples that the page offers are what their titles say."""

import json

import make_samples
import pytest
from recordings import judged

SAYS = {
    "llama-cpp.sse": ("The engine broke 16 places.", "raw-seam"),
    "proxy.har": ("A proxy, or what recorded it, broke 2 places.", "inside"),
    "vllm-logprobs.sse": ("The engine broke 3 places.", "token-alone"),
    "console.sse": (
        "The server, a proxy, a client, or what recorded it, broke 10 places.",
        "misread",
    ),
    "gpt-oss.sse": ("The server sent the tags of harmony as text", None),
    "ollama.ndjson": ("Nothing broken was found in it.", None),
}


def test_they_are_what_the_script_writes():
    written = {path.name: path.read_bytes() for path in make_samples.FOLDER.iterdir()}
    assert written == make_samples.samples()
    assert sum(map(len, written.values())) < 40_000


@pytest.mark.parametrize("file", SAYS)
def test_each_shows_the_fault_that_it_is_named_for(file):
    found = judged(make_samples.samples()[file], file)
    verdict, rule = SAYS[file]
    entry = "This is entry 2, one of the file's 2 streams. " if file == "proxy.har" else ""
    assert found["verdict"].startswith(entry + verdict)
    assert [one[1] for one in found["verdicts"]] == ([rule] if rule else [])
    assert found["format"] == ("harmony" if file == "gpt-oss.sse" else None)


def test_the_list_names_each_file_and_says_what_it_is():
    listed = json.loads(make_samples.samples()["samples.json"])
    assert [one["file"] for one in listed] == list(SAYS)
    assert all(one["title"] and one["about"] for one in listed)
