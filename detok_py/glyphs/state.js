// Whether this document is at rest: how long nothing has changed, and what the page itself says; null where it isn't watched.
() => {
  const watcher = window.__detokGlyphs, html = document.documentElement;
  return watcher ? {
    ...watcher.state(),
    state: html ? html.dataset.state || "" : "",
    busy: !!document.querySelector("[aria-busy=true]"),
    loading: document.readyState !== "complete",
  } : null;
}
