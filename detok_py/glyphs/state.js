// Returns for how many milliseconds this document has not changed (`quiet`), the state that the
// page reports, and in how many milliseconds the last timer is `due` (timers.js); null if the
// document is not watched.
() => {
  const watcher = window.__detokGlyphs,
    html = document.documentElement;
  return watcher
    ? {
        ...watcher.state(),
        state: html ? html.dataset.state || "" : "",
        busy: !!document.querySelector("[aria-busy=true]"),
        loading: document.readyState !== "complete",
        due: window.__detokTimers?.() ?? 0,
      }
    : null;
};
