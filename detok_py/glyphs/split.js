// Returns what a reader sees as one and the page draws in parts: [{text, whole, target}], at most
// 20. A browser shapes the text of inline elements as one; a box of its own (inline-block, flex)
// ends that. So a joined emoji falls apart, a mark stands beside its letter, and letters of Arabic
// are not joined. Parts with a gap between them, as in a list of tokens, are meant to be so.
([include, exclude]) => {
  const watcher = window.__detokGlyphs;
  if (!watcher || !document.body || !Intl.Segmenter) return [];
  const clusters = new Intl.Segmenter(undefined, { granularity: "grapheme" }); // UAX 29
  const RENDERED = "math, mjx-container, .katex, svg"; // they place each part themselves
  // Joining_Type=Dual_Joining, as far as languages of today use it, and what it joins.
  const JOINS = /[ئبتثجحخسشصضطظعغفقكلمنهيىپچڤکگںہھی]\p{M}*$/u,
    LETTER = /^[\u0620-\u064a\u066e-\u06d3\p{M}]/u,
    WORD = /[\u0620-\u064a\u066e-\u06d3\p{M}]*/uy;
  /** Whether two texts meet within a character, or between joined letters. */
  const isOne = (before, after) =>
    clusters.segment(before + after).containing(before.length).index < before.length ||
    (JOINS.test(before) && LETTER.test(after));
  const boxes = new Map();
  /** The box whose text is drawn as one. */
  const boxOf = (e) => {
    if (!e || !/^(inline|contents)$/.test(getComputedStyle(e).display)) return e;
    if (!boxes.has(e)) boxes.set(e, boxOf(watcher.hostOf(e)));
    return boxes.get(e);
  };
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

  const out = [];
  let line = "", // text without a gap
    cuts = []; // where parts of one begin in it: [index, element]
  const end = () => {
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
      const text = watcher.part(line, index - 40, until + 40);
      out.push({ text, whole: segment, target: watcher.selector(element) });
    }
    [line, cuts] = ["", []];
  };
  for (const root of watcher.roots) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    let last, lastBox;
    for (let node; (node = walk.nextNode());) {
      const element = watcher.hostOf(node);
      if (!node.data || !watcher.readable(element) || element.closest(RENDERED)) continue;
      if ((include && !element.closest(include)) || (exclude && element.closest(exclude))) continue;
      const box = boxOf(element),
        before = watcher.part(line, line.length - 40, line.length);
      if (last && lastBox !== box && isOne(before, watcher.part(node.data, 0, 40))) {
        if (areBeside(last, node)) cuts.push([line.length, element]);
        else end();
      }
      line += node.data;
      [last, lastBox] = [node, box];
    }
    end();
  }
  return out.slice(0, 20);
};
