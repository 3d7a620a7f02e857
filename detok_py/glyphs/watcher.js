// Finds every broken glyph that a document shows. watch.py says how.
(() => {
  "use strict";
  const KEY = "__detokGlyphs",
    MAX = 500,
    SETTLED = 600,
    LONG = 4000;
  if (window[KEY]) return void window[KEY].observe(document);
  const post = window[KEY + "Post"];
  // A test may replace `performance` (page.clock of Playwright).
  const time = window.performance,
    clock = time.now.bind(time);
  const doc = Math.random().toString(36).slice(2);
  const raf = window.requestAnimationFrame.bind(window),
    later = window.setTimeout.bind(window);
  const style = window.getComputedStyle.bind(window);
  const SKIP = /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|LINK|META|TEXTAREA)$/i;
  const BROKEN = /[\uD800-\uDFFF\uFFFD]/u,
    RISKY = /\uFFFD|\\0*(fffd|d[89a-f]\w\w)\b/i;
  const { SHOW_TEXT: TEXT, SHOW_ELEMENT: ELEMENT } = NodeFilter;
  const PSEUDO = ["::before", "::after", "::marker"];

  const all = [],
    live = new Set(),
    byNode = new WeakMap(),
    roots = new Set(),
    rootOf = new WeakMap(),
    changed = new Set(),
    ends = []; // text nodes of the changes that are read now
  let more = 0,
    last = clock(),
    mutations = 0,
    culprit = null,
    tails = [],
    risky = false, // a style sheet may have broken text
    dirty = true;

  const brokenAt = (s) => {
    if (!s || (s.isWellFormed && s.indexOf("\uFFFD") < 0 && s.isWellFormed())) return -1;
    return s.search(BROKEN);
  };

  const blockOf = (node) => {
    let e = node.parentElement;
    while (e && /^(inline|contents)$/.test(style(e).display)) e = e.parentElement;
    return e;
  };
  const neighbour = (node, forward, many = 1) => {
    const walk = document.createTreeWalker(node.getRootNode(), TEXT | ELEMENT),
      next = () => (forward ? walk.nextNode() : walk.previousNode());
    walk.currentNode = node;
    let out = "";
    for (let n; many && (n = next()) && !/^(br|img|input|canvas)$/.test(n.localName);) {
      if (n.data && blockOf(n) !== blockOf(node)) break;
      if (n.data) (many--, (out = forward ? out + n.data : n.data + out));
    }
    return out;
  };
  // Halves of a pair in adjacent nodes of one line are painted correctly.
  const brokenText = (node) => {
    const s = node.data,
      at = brokenAt(s);
    if (at < 0 || !node.isConnected) return at;
    let from = 0,
      to = s.length;
    if (/^[\uDC00-\uDFFF]/.test(s) && /[\uD800-\uDBFF]$/.test(neighbour(node, false))) from = 1;
    if (/[\uD800-\uDBFF]$/.test(s) && /^[\uDC00-\uDFFF]/.test(neighbour(node, true))) to--;
    const inner = brokenAt(s.slice(from, to));
    return inner < 0 ? -1 : inner + from;
  };

  /** Part of a text, where no pair of surrogates is cut. */
  const part = (s, from, to) => {
    from = Math.max(0, from);
    if (/^[\uDC00-\uDFFF]$/.test(s[from]) && /^[\uD800-\uDBFF]$/.test(s[from - 1])) from--;
    if (/^[\uD800-\uDBFF]$/.test(s[to - 1]) && /^[\uDC00-\uDFFF]$/.test(s[to])) to++;
    return s.slice(from, to);
  };
  const hostOf = (node) =>
    node.parentElement || (node.getRootNode && node.getRootNode().host) || null;

  // The end of each changed text, and when a reader could see it, for held.py. A change of hidden
  // text counts once the text is shown.
  const unseen = new Map(); // text nodes → [when they changed, whether they were hidden]
  const keep = (when, s) => {
    if (tails.length > 4000) tails = tails.filter((_, i) => i % 2);
    tails.push([when, part(s, s.length - 32, s.length)]);
  };
  const look = () => {
    for (const [node, [when, hidden]] of unseen) {
      if (!node.isConnected) unseen.delete(node);
      else if (readable(hostOf(node))) {
        keep(hidden ? clock() : when, node.data);
        unseen.delete(node);
      } else unseen.set(node, [when, true]);
    }
  };
  /** Whether a reader can see an element, perhaps after opening a `details`. */
  const readable = (e) => {
    const options = { visibilityProperty: true, checkVisibilityCSS: true };
    if (!e || !e.checkVisibility || e.checkVisibility(options)) return !!e;
    if (style(e).display === "contents") return readable(hostOf(e));
    const closed = e.closest("details:not([open])");
    return !!closed && readable(hostOf(closed));
  };
  const note = (node) => {
    const first = unseen.size && unseen.values().next().value[0];
    if (unseen.size > 200 || (first && clock() - first > 200)) look(); // a page without frames
    unseen.delete(node);
    unseen.set(node, [clock(), false]);
    if (unseen.size > 400) unseen.delete(unseen.keys().next().value);
    arm();
  };
  /** Note a node that has changed, once all changes are known. */
  const touch = (node) => {
    if (!/\S/.test(node.data)) return;
    if (ends.length > 7) ends.shift();
    ends.push(node);
  };

  const chainOf = (e) => {
    const chain = [];
    for (; e; e = hostOf(e)) chain.push(e);
    return chain;
  };
  const selector = (e) => {
    let path = "";
    for (let deep = 0; e && deep < 12; deep++) {
      const parent = e.parentElement,
        tag = e.localName;
      let step = tag;
      if (e.id) step = "#" + CSS.escape(e.id);
      else if (parent) {
        const twins = [...parent.children].filter((x) => x.localName === tag);
        if (twins.length > 1) step += `:nth-of-type(${twins.indexOf(e) + 1})`;
      }
      path = step + path;
      if (parent && !e.id) ((path = " > " + path), (e = parent));
      else if (e.getRootNode().host) ((path = " >>> " + path), (e = e.getRootNode().host));
      else break;
    }
    return path;
  };

  const send = (f) => {
    if (!post) return;
    if (!changed.size) later(flush, 0);
    changed.add(f);
  };
  const plain = (f) => {
    const { node, chain, key, ...rest } = f;
    return rest;
  };
  // As JSON, which escapes lone surrogates; the binding could not carry them.
  const flush = () => {
    if (!changed.size) return;
    const out = JSON.stringify({ doc, url: location.href, findings: [...changed].map(plain) });
    changed.clear();
    try {
      post(out);
    } catch {
      /* the harness has gone */
    }
  };

  const nameOf = (place, name) => place + (name ? ":" + name : "");
  const lookup = (node, place, name) => byNode.get(node)?.get(nameOf(place, name));
  const describe = (f, value, at) => {
    f.kind = value[at] === "\uFFFD" ? "ufffd" : "surrogate";
    f.text = part(value, at - 40, at + 40);
    f.at = at - value.indexOf(f.text, Math.max(0, at - 41));
    f.run = /^\uFFFD*/.exec(value.slice(at))[0].length;
    for (let i = at; i >= 0 && f.spots.length < 40; i = value.indexOf("\uFFFD", i + 1)) {
      let spot = part(value, i - 12, i + 1);
      if (i < 12 && f.place === "text") {
        const before = neighbour(f.node, false, 4);
        spot = part(before, before.length - 12, before.length) + spot;
      }
      if (!f.spots.includes(spot)) f.spots.push(spot);
    }
  };
  const born = (node, element, place, name, value, at) => {
    const target = element ? selector(element) : "(not in the document)";
    // If the page renders the same glyph again, it is the same finding.
    const key = [place, name, target, value.slice(Math.max(0, at - 20), at + 1)].join("\n");
    let f = all.find((x) => x.key === key && x.gone !== null);
    if (!f) {
      if (all.length >= MAX) return void more++;
      f = {
        id: `${doc}.${all.length}`,
        place,
        name,
        target,
        key,
        born: clock(),
        frames: 0,
        painted: false,
        detached: false,
        spots: [],
      };
      f.culprit = culprit && clock() - culprit.when < 5000 ? culprit : null;
      all.push(f);
    }
    f.node = node;
    f.gone = null;
    f.chain = chainOf(element);
    describe(f, value, at);
    if (element && element.isConnected) {
      const css = style(element);
      f.style = { font: css.font || `${css.fontSize} ${css.fontFamily}`, color: css.color };
    }
    let names = byNode.get(node);
    if (!names) byNode.set(node, (names = new Map()));
    names.set(nameOf(place, name), f);
    live.add(f);
    send(f);
    arm();
    return f;
  };
  const die = (f) => {
    f.gone = clock();
    live.delete(f);
    send(f);
  };
  const judge = (node, element, place, name, value, at) => {
    const f = lookup(node, place, name);
    if (!f || f.gone !== null) return void (at < 0 || born(node, element, place, name, value, at));
    if (at < 0) return die(f);
    const { text } = f;
    describe(f, value, at);
    if (text !== f.text) send(f);
  };
  const brief = (node, parent, value) => {
    const at = brokenAt(value);
    if (at < 0 || !parent.isConnected || lookup(node, "text", "")) return;
    if (SKIP.test(node.localName) || SKIP.test(parent.localName)) return;
    const f = born(node, parent.localName ? parent : null, "text", "", value, at);
    if (f) die(f);
  };

  const clean = (s) => brokenAt(s) < 0 && s.indexOf("\\") < 0;
  const suspect = (node) => !clean(node.data) || byNode.has(node);
  const checkText = (node) => {
    const s = node.data,
      e = hostOf(node),
      tag = e && e.localName;
    if (tag === "style") {
      if (RISKY.test(s)) alarm();
      return;
    }
    if (tag === "textarea") return checkValue(e);
    if (!SKIP.test(tag)) judge(node, e, tag === "title" ? tag : "text", "", s, brokenText(node));
  };
  const checkWritten = (node) => {
    if (suspect(node) && node.isConnected) checkText(node);
  };
  const checkAttribute = (e, name) => {
    const value = e.getAttribute(name) || "",
      at = brokenAt(value);
    if (name === "style") {
      if (RISKY.test(value)) alarm();
      return;
    }
    if (at < 0 && !byNode.has(e)) return;
    if ((e.localName === "textarea" || !SKIP.test(e.localName)) && !name.startsWith("on"))
      judge(e, e, "attribute", name, value, at);
  };
  const checkValue = (e) => judge(e, e, "value", "", e.value, brokenAt(e.value));
  const checkElement = (e) => {
    const tag = e.localName;
    if (e.hasAttributes()) for (const name of e.getAttributeNames()) checkAttribute(e, name);
    if (tag === "input" || tag === "textarea") checkValue(e);
    const root = rootOf.get(e) || e.shadowRoot;
    if (root) observe(root) || scan(root);
  };
  // What changes without a mutation of its node.
  const recheck = () => {
    for (const f of live)
      f.place === "text" ? checkText(f.node) : f.place === "value" && checkValue(f.node);
  };
  const scan = (node) => {
    const type = node.nodeType;
    if (type === 3) return void (touch(node), suspect(node) && checkText(node));
    if (type === 1) checkElement(node);
    for (let n = node.firstChild; n; n = n.nextSibling) scan(n);
  };

  const alarm = () => {
    risky = true;
    dirty = true;
    arm();
  };
  const sweepStyles = () => {
    dirty = false;
    for (const root of roots) {
      for (const e of root.querySelectorAll("*"))
        for (const p of PSEUDO) {
          const content = style(e, p).content;
          if (content && content !== "none" && content !== "normal")
            judge(e, e, "css", p, content, brokenAt(content));
          else if (lookup(e, "css", p)) judge(e, e, "css", p, "", -1);
        }
    }
  };
  const sweepSheets = () => {
    for (const root of roots)
      for (const sheet of [...(root.styleSheets || []), ...(root.adoptedStyleSheets || [])]) {
        try {
          for (const rule of sheet.cssRules) if (RISKY.test(rule.cssText)) return alarm();
        } catch {
          /* another origin's */
        }
      }
  };

  const OPTIONS = { subtree: true, childList: true, characterData: true, attributes: true };
  const observer = new MutationObserver((records) => take(records));
  let written = null;
  const takeWritten = () => {
    for (const node of written) (checkWritten(node), note(node));
    written.clear();
  };
  const wipe = (canvas) => {
    for (const f of live) if (f.place === "canvas" && f.node === canvas) die(f);
  };
  const take = (records) => {
    if (!records.length) return;
    last = clock();
    mutations += records.length;
    dirty = true;
    for (const f of live) if (!f.detached && !f.node.isConnected) die(f);
    // Text that was added and removed before this point was never painted.
    for (const r of records) {
      const { type, target } = r;
      if (type === "childList") {
        const added = r.addedNodes;
        for (let i = 0, n; (n = added[i]); i++) {
          const text = n.nodeType === 3;
          if (text) touch(n);
          if (text && !suspect(n)) continue;
          n.isConnected ? (text ? checkText(n) : scan(n)) : brief(n, target, n.textContent);
        }
      } else if (type === "characterData") {
        touch(target);
        checkWritten(target);
      } else {
        checkAttribute(target, r.attributeName);
        if (target.localName === "canvas" && /^(width|height)$/.test(r.attributeName)) wipe(target);
      }
    }
    ends.splice(0).forEach(note);
    if (risky || unseen.size) arm();
  };
  const observe = (root) => {
    if (!root || roots.has(root)) return false;
    if (root.host) rootOf.set(root.host, root);
    roots.add(root);
    if (root === document) armed = false; // the callbacks of an earlier document are gone
    observer.observe(root, OPTIONS);
    scan(root);
    return true;
  };

  // --- painted frames ---------------------------------------------------------------------------
  const visible = (f) => {
    const e = f.place === "text" ? hostOf(f.node) : f.node;
    if (!e || !e.isConnected) return false;
    // A canvas may be drawn before it is in the document.
    if (f.detached) ((f.detached = false), (f.target = selector(e)), (f.chain = chainOf(e)));
    if (f.place === "attribute" || f.place === "title") return true;
    if (e.checkVisibility && !e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }))
      return false;
    if (f.place !== "text") return e.getClientRects().length > 0;
    const range = document.createRange();
    range.selectNodeContents(f.node);
    return [...range.getClientRects()].some((r) => r.width > 0 && r.height > 0);
  };
  let frame = -1,
    shown = [],
    armed = false;
  const close = () => {
    for (const f of shown) {
      f.frames++;
      if (!f.painted) {
        f.painted = f.place !== "attribute" && f.place !== "title";
        send(f);
      }
    }
    shown = [];
  };
  const tick = (t) => {
    take(observer.takeRecords());
    if (t !== frame) {
      close();
      frame = t;
      armed = false;
      if (risky && dirty) sweepStyles();
      if ([...live].some((f) => f.frames < SETTLED)) arm();
      later(close, 0);
    }
    recheck();
    shown = [...live].filter((f) => f.frames < SETTLED && (f.frames > 60 || visible(f)));
    look();
  };
  const arm = () => {
    if (armed) return;
    armed = true;
    raf(tick);
  };
  // Each callback of the page is followed by a tick, so the last tick runs after all of them.
  window.requestAnimationFrame = function requestAnimationFrame(callback) {
    const id = raf(callback);
    raf(tick);
    return id;
  };

  // --- what no mutation observer sees -----------------------------------------------------------
  /** Do something after each call of some methods, or after their properties are set. */
  const after = (type, names, act) => {
    const owner = type && type.prototype;
    for (const name of owner ? names : []) {
      const d = Object.getOwnPropertyDescriptor(owner, name),
        key = d && d.set ? "set" : "value",
        original = d && d[key];
      const patched = function (...args) {
        const out = original.apply(this, args);
        try {
          act.call(this, out, args);
        } catch {
          /* watching must not break the page */
        }
        return out;
      };
      if (original) Object.defineProperty(owner, name, { ...d, [key]: patched });
    }
  };
  after(Element, ["attachShadow"], (root) => observe(root));
  after(HTMLElement, ["attachInternals"], (internals) => observe(internals.shadowRoot));
  for (const type of [HTMLInputElement, HTMLTextAreaElement])
    after(type, ["value", "setRangeText"], function () {
      last = clock();
      keep(clock(), this.value);
      checkValue(this);
    });
  // Mutation records copy long texts; the writing methods report instead.
  const watchWriting = (node) => {
    if (node.length < LONG || document.readyState !== "complete") return false;
    OPTIONS.characterData = false;
    for (const root of roots) observer.observe(root, OPTIONS);
    return (written = new Set());
  };
  const afterWriting = (type, names, whole) =>
    after(type, names, function (_, [text]) {
      if (this.nodeType !== 3 || !(written || watchWriting(this))) return;
      last = clock();
      mutations++;
      dirty = true;
      if (whole && !byNode.has(this) && clean(String(text))) return note(this);
      if (!written.size) queueMicrotask(takeWritten);
      written.add(this);
    });
  afterWriting(CharacterData, ["insertData", "replaceData", "deleteData"]);
  afterWriting(CharacterData, ["data", "appendData"], true);
  afterWriting(Node, ["nodeValue", "textContent"], true);
  const on = (name, act) => window.addEventListener(name, act, true);
  on("input", (e) => {
    const t = e.composedPath()[0];
    if (t instanceof HTMLInputElement || t instanceof HTMLTextAreaElement) checkValue(t);
    else if (written) scan(t);
  });
  after(CSSStyleSheet, ["insertRule", "replace", "replaceSync"], (_, [text]) => {
    if (RISKY.test(text)) alarm();
  });
  // The texts on each canvas by their place, in the order of drawing; text.js reads them.
  const drawn = new WeakMap();
  const draw = (canvas, value, point) => {
    if (!drawn.has(canvas)) drawn.set(canvas, new Map());
    const texts = drawn.get(canvas);
    texts.set(point.map(Math.round).join(), { value, point });
    if (texts.size > LONG) texts.delete(texts.keys().next().value);
  };
  const where = (context, x, y) => {
    const p = context.getTransform().transformPoint({ x, y });
    return [p.x, p.y];
  };
  for (const type of [window.CanvasRenderingContext2D, window.OffscreenCanvasRenderingContext2D]) {
    const afterDrawing = (name) =>
      after(type, [name], function (_, [text, x, y]) {
        last = clock();
        mutations++;
        const value = String(text),
          at = brokenAt(value),
          inside = this.canvas instanceof Element && this.canvas.isConnected,
          point = where(this, x, y);
        if (this.canvas instanceof Element) draw(this.canvas, value, point);
        if (at < 0) return;
        take(observer.takeRecords()); // a size that was set before
        const f = born({}, inside ? this.canvas : null, "canvas", name, value, at);
        if (f) {
          f.node = this.canvas;
          f.point = point;
          f.detached = !inside;
        }
      });
    ["fillText", "strokeText"].forEach(afterDrawing);
    after(type, ["clearRect", "fillRect"], function (_, [x, y, w, h]) {
      const [l, t] = where(this, x, y),
        [r, b] = where(this, x + w, y + h),
        isBetween = (n, a, z) => n >= Math.min(a, z) && n <= Math.max(a, z),
        covers = ([px, py]) => isBetween(px, l, r) && isBetween(py, t, b);
      for (const f of live)
        if (f.place === "canvas" && f.node === this.canvas && covers(f.point)) die(f);
      const texts = drawn.get(this.canvas);
      for (const [key, { point }] of texts ?? []) if (covers(point)) texts.delete(key);
    });
    after(type, ["reset"], function () {
      drawn.delete(this.canvas);
      wipe(this.canvas);
    });
  }
  // A new size clears a canvas, and so does the same size.
  after(HTMLCanvasElement, ["width", "height"], function () {
    drawn.delete(this);
    wipe(this);
  });
  after(window.TextDecoder, ["decode"], (out, [input, options]) => {
    if (out.indexOf("\uFFFD") < 0) return;
    // The first two places are in this script; Firefox gives them the address of the page.
    const line =
      (new Error().stack || "")
        .replace(/^Error.*\n/, "")
        .split("\n")
        .slice(2)
        .find((x) => /https?:|file:/.test(x)) || "";
    culprit = {
      when: clock(),
      stream: !!(options && options.stream),
      flush: !input,
      line: line.trim().replace(/^at /, "").slice(0, 200),
    };
  });

  // --- what the other scripts of this folder call -----------------------------------------------
  const sweep = () => {
    take(observer.takeRecords());
    close();
    // If the page forbids scripts, nothing was scanned yet. A root comes back with its host.
    for (const root of roots) root.isConnected ? scan(root) : roots.delete(root);
    sweepSheets();
    sweepStyles();
    recheck();
    return more;
  };
  const api = {
    all,
    doc,
    origin: time.timeOrigin,
    roots,
    rootOf,
    hostOf,
    observe,
    plain,
    sweep,
    visible,
    state: () => ({ quiet: clock() - last, mutations }),
    part,
    readable,
    selector,
    tails: () => (look(), tails),
    drawnOn: (canvas) => [...(drawn.get(canvas)?.values() ?? [])].map(({ value }) => value),
  };
  Object.defineProperty(window, KEY, { value: api, configurable: true });
  // Firefox runs this script in the first, empty document of a frame, keeps the window for the
  // next document, and does not run it again.
  const isEmpty = () => /^(about:blank)?$/.test(document.URL);
  const follow = () => {
    observe(document);
    if (isEmpty()) later(follow, 10);
  };
  // Chromium runs this in a sandboxed frame a little late. If the page may run no script, no timer
  // calls back either.
  api.late = true;
  if (document.readyState === "loading" || isEmpty() || clock() < 1000)
    later(() => (api.late = false), 0);
  follow();
  on("readystatechange", () => {
    if (document.readyState !== "interactive") return;
    observe(document) || scan(document);
    sweepSheets();
  });
  on("load", (e) => {
    if (e.target !== document) sweepSheets();
  });
  on("pagehide", flush);
})();
