// Returns the text of a document as a reader sees it, one line a block, with shadow roots, slots,
// field values, `alt` of pictures and the text on canvases. It is JSON, which can carry lone
// surrogates.
(within) => {
  const SKIP = /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|LINK|META)$/i;
  const BLOCK =
    /^(P|DIV|LI|BR|TR|H[1-6]|PRE|SECTION|ARTICLE|UL|OL|TABLE|BODY|FORM|OPTION|BLOCKQUOTE|LABEL|BUTTON)$/;
  const { roots, rootOf, hostOf, readable, drawnOn } = window.__detokGlyphs;
  const read = (node, out) => {
    if (node.nodeType === 3) return void (readable(hostOf(node)) && out.push(node.data));
    if (node.nodeType === 1 && SKIP.test(node.localName)) return;
    if (
      node.localName === "textarea" ||
      (node.localName === "input" && /^(text|search|url|)$/.test(node.type))
    ) {
      return void (readable(node) && out.push("\n", node.value, "\n"));
    }
    // Emoji may be pictures.
    if (node.localName === "img") return void (readable(node) && out.push(node.alt));
    if (node.localName === "canvas")
      return void (readable(node) && out.push("\n", drawnOn(node).join("\n"), "\n"));
    const line = BLOCK.test(node.nodeName),
      assigned = node.localName === "slot" ? node.assignedNodes() : [];
    if (line) out.push("\n");
    for (const n of assigned.length ? assigned : (rootOf.get(node) || node).childNodes)
      read(n, out);
    if (line) out.push("\n");
  };
  const out = [];
  const tops = within
    ? [...roots].flatMap((r) => [...r.querySelectorAll(within)])
    : [document.body || document];
  for (const e of tops)
    if (!tops.some((o) => o !== e && o.contains(e))) {
      read(e, out);
      out.push("\n");
    }
  return JSON.stringify(out.join(""));
};
