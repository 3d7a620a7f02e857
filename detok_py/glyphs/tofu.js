// Returns the characters of the page that no font here has: they look exactly like a code point
// that no font has. This is not a fault of the page, because another machine may have the font. At
// most 200 characters are painted, each once.
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 32;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  if (!pen || !document.body) return [];
  const picture = (font, c) => {
    pen.clearRect(0, 0, 32, 32);
    pen.font = font;
    pen.fillText(c, 4, 24);
    return pen.getImageData(0, 0, 32, 32).data.join();
  };
  const out = [],
    seen = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode()) && seen.size < 200;) {
    const e = n.parentElement;
    if (
      !e ||
      /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE)$/i.test(e.localName) ||
      !/[\u0100-\uffff]/.test(n.data)
    )
      continue;
    const css = getComputedStyle(e),
      font = `${css.fontStyle} ${css.fontWeight} 20px ${css.fontFamily}`;
    let missing;
    for (const c of n.data) {
      if (
        c < "\u0100" ||
        seen.has(c) ||
        seen.size >= 200 ||
        !/[\p{L}\p{N}\p{S}\p{P}\p{Co}]/u.test(c) ||
        c === "\ufffd"
      )
        continue;
      seen.add(c);
      missing ??= ["\u{10fffe}", "\u{effff}"].map((x) => picture(font, x));
      if (missing.includes(picture(font, c)))
        out.push({ text: c, target: e.id ? "#" + e.id : e.localName });
    }
  }
  return out;
};
