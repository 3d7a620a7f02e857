"""`resumingFetch` of the library with a real llama-server, whose connection is cut at every byte.
Its cases without an engine are in tests/js/resuming-fetch.test.mjs.
"""

import json
import subprocess
from pathlib import Path

import pytest
from stock_llama_server import llama_server

pytestmark = [pytest.mark.native, pytest.mark.full]

SCRIPT = Path(__file__).with_name("cut_llama_server.mjs")


def test_an_answer_of_llama_server_is_whole_cut_at_every_byte():
    with llama_server() as url:
        words = ["node", str(SCRIPT), url]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["whole"] == "Final: 🇯🇵"
    assert seen["places"] > 1500
    assert seen["others"] == []
