// Returns where a reader sees one of the given markers: [{text, marker, target}], at most 20. Text
// nodes of a block are read as one text, because a page may have one for each token. Code is left
// out, because an answer may be about markup; so are the fields that a user types into.
([markers, include, exclude]) => {
  const watcher = window.__detokGlyphs;
  if (!watcher || !document.body) return [];
  const CODE =
    "code, pre, kbd, samp, textarea, script, style, noscript, template, [contenteditable]";
  const longest = Math.max(...markers.map((one) => one.length));
  const out = [];
  let block, before;
  for (const { node, element, box } of watcher.texts(include, exclude)) {
    if (element.closest(CODE)) continue;
    if (block !== (block = box)) before = "";
    const text = before + node.data;
    const marker = markers.find((one) => text.includes(one));
    before = marker ? "" : watcher.part(text, text.length - longest, text.length);
    if (!marker) continue;
    const at = text.indexOf(marker);
    const seen = watcher.part(text, at - 40, at + marker.length + 40);
    out.push({ text: seen, marker, target: watcher.selector(element) });
    if (out.length === 20) break;
  }
  return out;
};
