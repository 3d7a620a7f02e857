"""The texts of the reciting model: `TEXTS`, a list of `Text`.

In: `detok_py/bridge/recite/texts.json`. Edit them there. Joiners, other invisible characters, and
combining marks that an editor might compose or move are written as escapes.
"""

import json
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).resolve().parents[1] / "detok_py" / "bridge" / "recite" / "texts.json"


class Text(NamedTuple):
    """A text, and the prompt for which the model recites it: its id, a colon and a space. `lang` is
    a BCP 47 tag, `dir` the base direction, "ltr" or "rtl".
    """

    id: str
    title: str
    lang: str
    dir: str
    prompt: str
    text: str


TEXTS = [Text(**text) for text in json.loads(FILE.read_text("utf-8"))]
