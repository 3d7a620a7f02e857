"""Random streams in one page of the library, against the core in CPython.

After each push that is awaited, a stream must have shown what the core shows, hold what it holds,
and have the same calls. Streams with the same options share what the page remembers.
`DETOK_SEEDS=first:end` chooses the seeds. One that fails prints itself and few pushes that fail.
"""

import os
import random
from functools import partial
from typing import Any

import pytest
from random_streams import Case, Core, random_case

pytestmark = [pytest.mark.one_browser, pytest.mark.soak]

PLAY = """async ([options, url, pushes]) => {
  const vocabulary = url ? await lib.loadVocabulary(url, { ...options[0], cache: false }) : undefined;
  const streams = {}, seen = [];
  for (const [name, number, chunk, isAwaited] of pushes) {
    streams[name] ??= { shown: [], decoder: new lib.Decoder({ ...options[number], vocabulary }) };
    const { shown, decoder } = streams[name];
    if (chunk === null) shown.push(decoder.flush());
    else if (!url) shown.push(decoder.feed(fromHex(chunk)));
    else shown.push(chunk.length === 1 ? decoder.push(chunk[0]) : decoder.feed(chunk));
    if (isAwaited) shown.push(await decoder.ready());
    const { held, finishReason: end, calls } = decoder;
    const named = calls.map((call) => [call.id, call.name, call.arguments, call.complete]);
    seen.push(isAwaited && [shown.splice(0).flat(), end, end ? null : held, named]);
  }
  return seen;
}"""


def first_difference(page: Any, served: Any, runtime: str, case: Case) -> Any:
    """Return the first push of a case after which page and core differ, and what each has then."""
    # The page remembers steps by options: a prompt of its own keeps the steps of a case apart.
    own = {"runtime": runtime, "prompt": str(random.random())}
    url = case.vocabulary and "/given/random.detok"
    if case.vocabulary is not None:
        served.given["random.detok"] = (200, {}, case.vocabulary.pack())
    seen = page.evaluate(PLAY, [[{**each, **own} for each in case.options], url, case.pushes])
    cores: dict[int, Core] = {}
    for at, ((name, number, chunk, _), got) in enumerate(zip(case.pushes, seen, strict=True)):
        if name not in cores:
            cores[name] = Core(case.options[number], case.vocabulary)
        cores[name].push(chunk)
        if got:
            got[0] = cores[name].joined(got[0])
            expected = cores[name].take_state()
            if got != expected:
                return at, got, expected
    return None


def with_fewer_pushes(case: Case, found: Any, differs: Any) -> tuple[Case, Any]:
    """Leave out one push after another, if the page and the core still differ without it."""
    for push in reversed(case.pushes[: found[0] + 1]):
        fewer = case._replace(pushes=[each for each in case.pushes if each is not push])
        if still := differs(fewer):
            case, found = fewer, still
    return case._replace(pushes=case.pushes[: found[0] + 1]), found


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_random_streams_show_what_the_core_shows(library, served, runtime):
    differs = partial(first_difference, library, served, runtime)
    for seed in range(*map(int, os.environ.get("DETOK_SEEDS", "0:300").split(":"))):
        case = random_case(seed)
        if found := differs(case):
            case, (_, *states) = with_fewer_pushes(case, found, differs)
            told = f"DETOK_SEEDS={seed}:{seed + 1}\n{case}\nthe page, the core: {states}"
            pytest.fail(told, pytrace=False)
