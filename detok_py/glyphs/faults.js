// Walks once through the text that a reader sees, and returns two kinds of findings, at most 20 of
// each.
//
// {marker, text, target}: where one of the given markers is shown. Text nodes of a box are read as
// one text, because a page may have one for each token. Code is left out, because an answer may be
// about markup; so are the fields that a user types into.
//
// {whole, text, target}: what a reader sees as one and the page draws in parts. A browser shapes
// the text of inline elements as one; a box of its own (inline-block, flex) ends that. So a joined
// emoji falls apart, a mark stands beside its letter, and letters of Arabic are not joined. Parts
// with a gap between them, as in a list of tokens, are meant to be so.
([markers, include, exclude]) => {
  const watcher = window.__detokGlyphs;
  if (!watcher || !document.body) return [];
  const { hostOf, part, readable, roots, selector } = watcher;
  const CODE =
    "code, pre, kbd, samp, textarea, script, style, noscript, template, [contenteditable]";
  const RENDERED = "math, mjx-container, .katex, svg"; // they place each part themselves
  const MOST = 20;
  const boxes = new Map();
  /** The box whose text is drawn as one. */
  const boxOf = (e) => {
    if (!e || !/^(inline|contents)$/.test(getComputedStyle(e).display)) return e;
    if (!boxes.has(e)) boxes.set(e, boxOf(hostOf(e)));
    return boxes.get(e);
  };

  // --- markers ----------------------------------------------------------------------------------
  const longest = Math.max(...markers.map((one) => one.length));
  const marked = [];
  let block, shown;
  const findMarker = (data, element, box) => {
    if (marked.length === MOST || element.closest(CODE)) return;
    if (block !== (block = box)) shown = "";
    const text = shown + data;
    const marker = markers.find((one) => text.includes(one));
    shown = marker ? "" : part(text, text.length - longest, text.length);
    if (!marker) return;
    const at = text.indexOf(marker);
    const seen = part(text, at - 40, at + marker.length + 40);
    marked.push({ text: seen, marker, target: selector(element) });
  };

  // --- characters in parts ----------------------------------------------------------------------
  const clusters = Intl.Segmenter && new Intl.Segmenter(undefined, { granularity: "grapheme" }); // UAX 29
  // Joining_Type=Dual_Joining, as far as languages of today use it, and what it joins.
  const JOINS = /[ئبتثجحخسشصضطظعغفقكلمنهيىپچڤکگںہھی]\p{M}*$/u,
    LETTER = /^[\u0620-\u064a\u066e-\u06d3\p{M}]/u,
    WORD = /[\u0620-\u064a\u066e-\u06d3\p{M}]*/uy;
  /** Whether two texts meet within a character, or between joined letters. */
  const isOne = (before, after) =>
    clusters.segment(before + after).containing(before.length).index < before.length ||
    (JOINS.test(before) && LETTER.test(after));
  const drawn = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return range.getBoundingClientRect();
  };
  const touch = (a, b) =>
    a.top < b.bottom && b.top < a.bottom && Math.max(b.left - a.right, a.left - b.right) <= 1;
  const areBeside = (a, b) => {
    const end = a.length - (/[^][\udc00-\udfff]$/.test(a.data) ? 2 : 1);
    return touch(drawn(a, end, a.length), drawn(b, 0, 1));
  };
  const split = [];
  let line = "", // text without a gap
    cuts = [], // where parts of one begin in it: [index, element]
    last,
    lastBox;
  const endLine = () => {
    let until = 0;
    for (const [at, element] of cuts) {
      if (at < until) continue;
      let { index, segment } = clusters.segment(line).containing(at);
      if (index === at) {
        while (index && LETTER.test(line[index - 1])) index--;
        WORD.lastIndex = index;
        segment = WORD.exec(line)[0];
      }
      until = index + segment.length;
      const text = part(line, index - 40, until + 40);
      split.push({ text, whole: segment, target: selector(element) });
    }
    [line, cuts, last] = ["", [], null];
  };
  const join = (node, element, box) => {
    if (!clusters || !node.data || element.closest(RENDERED)) return;
    const before = part(line, line.length - 40, line.length);
    if (last && lastBox !== box && isOne(before, part(node.data, 0, 40))) {
      if (areBeside(last, node)) cuts.push([line.length, element]);
      else endLine();
    }
    line += node.data;
    [last, lastBox] = [node, box];
  };

  for (const root of roots) {
    block = shown = undefined;
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node; (node = walk.nextNode());) {
      const element = hostOf(node);
      if (!element || !readable(element)) continue;
      if ((include && !element.closest(include)) || (exclude && element.closest(exclude))) continue;
      const box = boxOf(element);
      findMarker(node.data, element, box);
      join(node, element, box);
    }
    endLine();
  }
  return [...marked, ...split.slice(0, MOST)];
};
