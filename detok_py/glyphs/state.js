// Returns for how many milliseconds this document has not changed (`quiet`), and the state that the
// page reports; null if the document is not watched.
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
