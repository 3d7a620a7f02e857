"""The chat pages of tests/fixtures/chat and their server, for tests of the regression kit:
`fixtures` is the module server.py there, which a person can run by itself too.
"""

import importlib.util
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "fixtures" / "chat"
spec = importlib.util.spec_from_file_location("detok_chat_fixtures", FOLDER / "server.py")
assert spec is not None and spec.loader is not None
fixtures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fixtures)
