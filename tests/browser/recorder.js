// Records every state that the three panes are ever in, painted or not: after each mutation, and
// again in each frame. `recorder.begin()` forgets; `recorder.seen(pane)` tells what there was
// since.
(() => {
  const lone = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
  const panes = new Map();
  const fresh = () => ({ replacements: 0, surrogates: 0, states: 0, takenBack: 0, last: "" });
  const look = (element) => {
    const name = element.dataset.pane;
    const seen = panes.get(name) ?? panes.set(name, fresh()).get(name);
    const text = element.textContent;
    if (text === seen.last) return;
    seen.states++;
    seen.replacements = Math.max(seen.replacements, text.split("\ufffd").length - 1);
    seen.surrogates = Math.max(seen.surrogates, text.match(lone)?.length ?? 0);
    if (!text.startsWith(seen.last)) seen.takenBack++;
    seen.last = text;
  };
  const all = () => document.querySelectorAll("[data-pane]").forEach(look);
  const eachFrame = () => {
    all();
    requestAnimationFrame(eachFrame);
  };
  document.addEventListener("DOMContentLoaded", () => {
    for (const pane of document.querySelectorAll("[data-pane]")) {
      new MutationObserver(() => look(pane)).observe(pane, {
        childList: true,
        characterData: true,
        subtree: true,
      });
    }
    eachFrame();
  });
  globalThis.recorder = {
    begin() {
      panes.clear();
    },
    seen: (name) => panes.get(name) ?? fresh(),
  };
})();
