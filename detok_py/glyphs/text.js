// Returns the text of a document, one line a block, with shadow roots, slots, field values, `alt`
// of pictures and the text on canvases: `text` is what a reader sees, `hidden` maps each reason why
// text cannot be seen to that text. What a page writes in a form of its own (formulas, diagrams,
// readings, marks of footnotes) stands between U+FFF9 and U+FFFB. It is JSON, which can carry lone
// surrogates.
(within) => {
  const SKIP = /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|LINK|META)$/i;
  const BLOCK =
    /^(P|DIV|LI|BR|TR|H[1-6]|PRE|SECTION|ARTICLE|UL|OL|TABLE|BODY|FORM|OPTION|BLOCKQUOTE|LABEL|BUTTON)$/;
  const RENDERED = `math, mjx-container, .katex, svg, rt, rp, [data-footnote-ref], sup > a[href^="#"],
    [data-footnote-backref], .footnote-ref, .footnote-backref`;
  const { roots, rootOf, hostOf, readable, drawnOn } = window.__detokGlyphs;
  const html = document.documentElement,
    style = (e) => getComputedStyle(e);

  // --- what a reader cannot see -----------------------------------------------------------------
  const isClear = (color) => /^rgba\(.*, ?0\)$|\/ *0(\.0+)?%?\)$/.test(color);
  const isSmall = (overflow, size) => /hidden|clip/.test(overflow) && size <= 1;
  /** Whether an element stays hidden: nothing moves it, and no control says that it opens it, as a
   * `summary` opens its `details`. */
  const stays = (e) => {
    const controls = `[aria-expanded=false][aria-controls~="${CSS.escape(e.id)}"]`,
      before = e.previousElementSibling;
    return !(
      e.getAnimations?.().some(({ playState }) => playState === "running") ||
      e.getRootNode().querySelector(controls) ||
      before?.matches("[aria-expanded=false]") ||
      before?.querySelector("[aria-expanded=false]")
    );
  };
  /** Whether an element is in the window; elsewhere, opacity 0 may end when it is scrolled to. */
  const isInWindow = (e) => {
    const { left, right, top, bottom } = e.getBoundingClientRect();
    return right > 0 && bottom > 0 && left < innerWidth && top < innerHeight;
  };
  const isBox = (e, css) =>
    !/^(html|body|img|canvas)$/.test(e.localName) &&
    !/^(inline|contents)$/.test(css.display) &&
    e.getClientRects().length > 0;
  const isClipped = (e, css) =>
    (isSmall(css.overflowX, e.clientWidth) && isBox(e, css)) ||
    (isSmall(css.overflowY, e.clientHeight) && isBox(e, css)) ||
    (/absolute|fixed/.test(css.position) && /^rect\((\d+px),? \1,? \1,? \1\)/.test(css.clip)) ||
    /^inset\((50|100)%\)/.test(css.clipPath) ||
    css.contentVisibility === "hidden" ||
    css.scale === "0" ||
    /^matrix\(0, 0, 0, 0/.test(css.transform);
  // The window itself scrolls if `html` does, or `body` alone.
  const isScroller = (e, css) =>
    e !== html &&
    (e !== document.body || style(html).overflowX !== "visible") &&
    /auto|scroll/.test(css.overflowX + css.overflowY);
  // How an element hides all that is in it: `clear` (opacity), `small` (a box that clips). What
  // else decides about its text: `painted` (a background in the shape of text), `scrolls`.
  const states = new Map([[null, {}]]);
  const stateOf = (e) => {
    if (states.has(e)) return states.get(e);
    const css = style(e),
      outer = stateOf(e.assignedSlot ?? hostOf(e)),
      isOut = /absolute|fixed/.test(css.position),
      box = isOut ? stateOf(e.offsetParent) : outer; // what clips it
    const state = {
      clear: outer.clear || (css.opacity === "0" && isInWindow(e) && stays(e)),
      small: box.small || (isClipped(e, css) && stays(e)),
      scrolls: outer.scrolls || isScroller(e, css),
      fixed: outer.fixed || css.position === "fixed",
      painted: outer.painted || /text/.test(css.backgroundClip + css.webkitBackgroundClip),
      readable: readable(e),
    };
    state.transparent =
      isClear(css.webkitTextFillColor || css.color) &&
      isClear(css.color) &&
      css.textShadow === "none" &&
      !parseFloat(css.webkitTextStrokeWidth) &&
      !state.painted;
    state.tiny = parseFloat(css.fontSize) === 0;
    state.indented = parseFloat(css.textIndent) < -99;
    states.set(e, state);
    return state;
  };
  // A window that begins at its right or lower end scrolls to the left or up.
  const isReversed = [html, document.body].some((e) => {
    const { direction, writingMode, flexDirection } = e ? style(e) : {};
    return direction === "rtl" || /-rl/.test(writingMode) || /reverse/.test(flexDirection);
  });
  const isOff = ({ right, bottom }) => right + scrollX <= 0 || bottom + scrollY <= 0;
  const isBeyond = ({ left, top }) => left >= innerWidth || top >= innerHeight;
  /** Whether all of a node is left of or above what the window can scroll to. */
  const isOutside = (node, e, state) => {
    if (state.scrolls) return false;
    if (state.fixed && isBeyond(e.getBoundingClientRect()) && stays(e)) return true;
    if (isReversed) return false;
    state.off ??= isOff(e.getBoundingClientRect()) || state.indented;
    if (!state.off) return false;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = [...(node === e ? node : range).getClientRects()];
    return rects.length > 0 && rects.every(isOff);
  };
  const whyHidden = (node, e) => {
    if (!e) return "outside of the page";
    const state = stateOf(e);
    if (!state.readable) return "display: none or visibility: hidden";
    if (state.clear) return "opacity: 0";
    if (state.small) return "in a box that clips it to nothing";
    if (state.transparent && node.nodeType === 3) return "a transparent colour";
    if (state.tiny && node.nodeType === 3) return "a font size of 0";
    return isOutside(node, e, state) ? "outside of what can be scrolled to" : "";
  };

  // --- the text ---------------------------------------------------------------------------------
  const out = [],
    hidden = {};
  let rendered = false;
  const add = (node, e, ...texts) => {
    const why = whyHidden(node, e);
    (why ? (hidden[why] ??= []) : out).push(...texts);
  };
  const read = (node) => {
    if (node.nodeType === 3) return add(node, hostOf(node), node.data);
    if (node.nodeType === 1 && SKIP.test(node.localName)) return;
    if (
      node.localName === "textarea" ||
      (node.localName === "input" && /^(text|search|url|)$/.test(node.type))
    )
      return add(node, node, "\n", node.value, "\n");
    // Emoji may be pictures.
    if (node.localName === "img") return add(node, node, node.alt);
    if (node.localName === "canvas") return add(node, node, "\n", drawnOn(node).join("\n"), "\n");
    const line = BLOCK.test(node.nodeName),
      assigned = node.localName === "slot" ? node.assignedNodes() : [];
    if (line) out.push("\n");
    const begins = !rendered && node.nodeType === 1 && node.matches(RENDERED);
    if (begins) rendered = !!out.push("\ufff9");
    for (const n of assigned.length ? assigned : (rootOf.get(node) || node).childNodes) read(n);
    if (begins) rendered = !out.push("\ufffb");
    if (line) out.push("\n");
  };
  const tops = within
    ? [...roots].flatMap((r) => [...r.querySelectorAll(within)])
    : [document.body || document];
  for (const e of tops)
    if (!tops.some((o) => o !== e && o.contains(e))) {
      read(e);
      out.push("\n");
    }
  for (const why in hidden) hidden[why] = hidden[why].join("");
  return JSON.stringify({ text: out.join(""), hidden });
};
