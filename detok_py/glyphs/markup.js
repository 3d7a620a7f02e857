// Returns where a reader sees one of the given markers: [{text, marker, target}], at most 20. Code
// is left out, because an answer may be about markup; so are the fields that a user types into.
([markers, include, exclude]) => {
  const watcher = window.__detokGlyphs;
  if (!watcher || !document.body) return [];
  const CODE =
    "code, pre, kbd, samp, textarea, script, style, noscript, template, [contenteditable]";
  const out = [];
  for (const root of watcher.roots) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let n; (n = walk.nextNode()) && out.length < 20;) {
      const e = watcher.hostOf(n);
      const marker = e && markers.find((one) => n.data.includes(one));
      if (!marker || e.closest(CODE) || !watcher.readable(e)) continue;
      if ((include && !e.closest(include)) || (exclude && e.closest(exclude))) continue;
      const at = n.data.indexOf(marker);
      const text = watcher.part(n.data, at - 40, at + marker.length + 40);
      out.push({ text, marker, target: watcher.selector(e) });
    }
  }
  return out;
};
