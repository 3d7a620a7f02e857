// Returns the findings of this document so far, as JSON. `outside` is true for a finding that is
// not in `include` or is in `exclude`. `matched` says whether any element matches `include`.
// `wrong` is a selector that is not valid CSS. `tails` has the last characters of each text that
// changed, with the time; `reads` has where the chunks ended that the page got of each stream;
// `more` says how many findings were not kept; `late` whether the watcher began after the document.
([include, exclude]) => {
  const watcher = window.__detokGlyphs;
  if (!watcher) return null;
  for (const selector of [include, exclude]) {
    try {
      if (selector) document.createDocumentFragment().querySelector(selector);
    } catch {
      return JSON.stringify({ wrong: selector });
    }
  }
  const inside = (f, selector) => f.chain.some((e) => e.matches(selector));
  const more = watcher.sweep(),
    { all, doc, roots, plain, late } = watcher;
  const matched =
    !include ||
    [...roots].some((root) => root.querySelector(include)) ||
    all.some((f) => inside(f, include));
  const findings = all.map((f) => ({
    ...plain(f),
    outside: (!!include && !inside(f, include)) || (!!exclude && inside(f, exclude)),
  }));
  const tails = watcher.tails().map(([when, text]) => [watcher.origin + when, text]);
  const reads = window.__detokReads ?? [];
  return JSON.stringify({ doc, url: location.href, late, more, findings, matched, tails, reads });
};
