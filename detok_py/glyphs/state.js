// Returns how long this document has not changed, and the state that the page reports; null if the
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
      }
    : null;
};
