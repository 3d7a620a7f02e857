// Returns where a reader sees one of the given markers: [{text, marker, target}], at most 20. Text
// nodes of a block are read as one text, because a page may have one for each token. Code is left
// out, because an answer may be about markup; so are the fields that a user types into.
([markers, include, exclude]) => {
  const watcher = window.__detokGlyphs;
  if (!watcher || !document.body) return [];
  const CODE =
    "code, pre, kbd, samp, textarea, script, style, noscript, template, [contenteditable]";
  const longest = Math.max(...markers.map((one) => one.length));
  const blocks = new Map();
  const blockOf = (e) => {
    if (!e || !/^(inline|contents)$/.test(getComputedStyle(e).display)) return e;
    if (!blocks.has(e)) blocks.set(e, blockOf(watcher.hostOf(e)));
    return blocks.get(e);
  };
  const out = [];
  for (const root of watcher.roots) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    let block, before;
    for (let n; (n = walk.nextNode()) && out.length < 20;) {
      const e = watcher.hostOf(n);
      if (!e || e.closest(CODE) || !watcher.readable(e)) continue;
      if ((include && !e.closest(include)) || (exclude && e.closest(exclude))) continue;
      if (block !== (block = blockOf(e))) before = "";
      const text = before + n.data;
      const marker = markers.find((one) => text.includes(one));
      before = marker ? "" : watcher.part(text, text.length - longest, text.length);
      if (!marker) continue;
      const at = text.indexOf(marker);
      const seen = watcher.part(text, at - 40, at + marker.length + 40);
      out.push({ text: seen, marker, target: watcher.selector(e) });
    }
  }
  return out;
};
