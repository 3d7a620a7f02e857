"""The diagrams of docs/protocol.md show the tables that the code runs."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from detok_py.protocol import client, server

pytestmark = pytest.mark.native
DOCS = Path(__file__).parents[1] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("module", [client, server], ids=["client", "server"])
def test_a_diagram_has_an_arrow_for_each_transition(module):
    name = f"states-{module.__name__.rpartition('.')[2]}.svg"
    drawn, states = {}, set()
    for element in ElementTree.parse(DOCS / "images" / name).iter():
        if element.get("class") == "arrow":
            for event in element.get("data-on", "").split():
                drawn[element.get("data-from"), event] = element.get("data-to")
            said = " ".join(text.text or "" for text in element.iter(f"{SVG}text"))
            assert said, "an arrow says nothing"
        if element.get("class") == "name":
            states.add(element.text)
    assert drawn == module.TRANSITIONS
    assert states == {state for state, _ in drawn} | set(drawn.values())
    assert f"(images/{name})" in (DOCS / "protocol.md").read_text("utf-8")
