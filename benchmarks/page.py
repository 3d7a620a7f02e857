"""The page in Chromium: what it costs to be ready, what is on the wire, how long text waits for its
paint, and what rate it keeps up with.

    .venv/bin/python -m benchmarks.page [--runs 3]

Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}; the
peer is the bar that was set, where there is one. CPU seconds are those of the thread itself as the
system counts them, so that other work on the machine adds little; milliseconds and frames are wall
time and do depend on it. Needs Linux (/proc), Chromium, and what `make demo` sets up.
"""

import argparse
import statistics
import time
from functools import partial
from typing import Any

from playwright.sync_api import Page, sync_playwright

from .rig import Wire, main_seconds, renderers, served, settings, worker_seconds
from .rows import recited, report

report = partial(report, "page")
RATES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
# A frame is dropped when the next one comes later than one and a half frames of 60 a second.
LATE_MS = 25


def wait_for(page: Page, state: str) -> None:
    page.wait_for_selector(f"html[data-state={state}]", state="attached", timeout=120_000)


def boot(browser: Any, url: str) -> tuple[Any, Page, int]:
    """Return a context with a page that is ready, and the renderer that has it."""
    before = set(renderers(browser))
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url)
    wait_for(page, "ready")
    new = {pid: seconds for pid, seconds in renderers(browser).items() if pid not in before}
    return context, page, max(new, key=worker_seconds)


def stream(
    page: Page, text: str, pace: float, cut: str = "token", frames: bool = True
) -> dict[str, Any]:
    """Stream a text on the page; return its counters, and with `frames` those of the main thread
    meanwhile, which makes the browser draw every one of them.
    """
    result: dict[str, Any] = page.evaluate(
        """async ([text, pace, cut, counted]) => {
          document.querySelector("[name=source][value=text]").click();
          document.getElementById("own-text").value = text;
          document.getElementById("cut").value = cut;
          const list = document.getElementById("pace");
          if (![...list.options].some(({ value }) => value === pace)) list.append(new Option(pace, pace));
          list.value = pace;
          const frames = [];
          let last = performance.now();
          let going = counted;
          const frame = () => {
            const now = performance.now();
            frames.push(now - last);
            last = now;
            if (going) requestAnimationFrame(frame);
          };
          if (counted) requestAnimationFrame(frame);
          const begun = performance.now();
          document.getElementById("start").click();
          await new Promise((resolve) => {
            const watch = new MutationObserver(() => {
              if (document.documentElement.dataset.state !== "streaming") {
                watch.disconnect();
                resolve();
              }
            });
            watch.observe(document.documentElement, { attributes: true });
          });
          going = false;
          const count = (name) => document.querySelector(`#gauges [data-count=${name}]`).textContent;
          const { state } = document.documentElement.dataset;
          const tokens = Number(count("tokens"));
          const rate = (1000 * tokens) / (performance.now() - begun);
          return { state, frames, tokens, rate, painted: count("painted"), decoding: Number(count("decoding")) };
        }""",
        [text, str(pace), cut, frames],
    )
    if result["state"] != "finished":
        raise SystemExit(f"the stream ended in {result['state']}: {page.inner_text('#alert')}")
    return result


def dropped(frames: list[float]) -> float:
    """Return the share of frames that came late."""
    return sum(frame > LATE_MS for frame in frames) / max(1, len(frames))


IDLE = """() => new Promise((resolve) => {
  const frames = [];
  let last = performance.now();
  requestAnimationFrame(function frame() {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    frames.length < 180 ? requestAnimationFrame(frame) : resolve(frames);
  });
})"""


def boots(browser: Any, port: int, runs: int) -> None:
    """Report what a page costs until it is ready."""
    cpu, wall, wire_bytes = [], [], 0
    for _ in range(runs):
        wire = Wire(port)
        began = time.monotonic()
        context, _, pid = boot(browser, f"http://127.0.0.1:{wire.port}/")
        wall.append(time.monotonic() - began)
        cpu.append(worker_seconds(pid))
        wire_bytes = wire.received
        context.close()
    report("worker CPU from page load to ready", statistics.median(cpu), "s", 1.5)
    report("wall time from page load to ready", statistics.median(wall), "s")
    report("on the wire to ready, headers included", wire_bytes / 1000, "kB", 8200)


def rates(page: Page, pid: int, text: str) -> None:
    """Report what a token costs at each rate, and the highest rate without dropped frames."""
    idle: list[float] = page.evaluate(IDLE)
    report("frames dropped by an idle page on this machine", 100 * dropped(idle), "%")
    sustained = 0.0
    for rate in RATES:
        amount = (text * 20)[: max(1500, 8 * rate)]
        main_before, worker_before = main_seconds(pid), worker_seconds(pid)
        result = stream(page, amount, rate)
        late, tokens = dropped(result["frames"]), result["tokens"]
        case = f"frames dropped at {rate} tokens/s asked, {result['rate']:.0f} reached"
        report(case, 100 * late, "%")
        for thread, spent in (
            ("main thread", main_seconds(pid) - main_before),
            ("worker", worker_seconds(pid) - worker_before),
        ):
            report(f"{thread} CPU a token at {rate} tokens/s", 1e6 * spent / tokens, "µs")
        if late <= dropped(idle) + 0.02:
            sustained = max(sustained, result["rate"])
    report("tokens/s before the main thread drops frames", sustained, "tokens/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="boots to take the median of (3)")
    runs, text = parser.parse_args().runs, " ".join(recited().values())
    with served() as port, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**settings())
        boots(browser, port, runs)
        context, page, pid = boot(browser, f"http://127.0.0.1:{port}/")
        result = stream(page, text[:1500], 100)
        for name, value in zip(("p50", "p99"), result["painted"].split(" · "), strict=True):
            report(f"frame arrival to paint at 100 tokens/s, {name}", float(value), "ms")
        report("decoding, by its own clock, at 100 tokens/s", result["decoding"], "µs a token")
        rates(page, pid, text)
        context.close()
        browser.close()


if __name__ == "__main__":
    main()
