/**
 * Plays a stream of tokens in a notebook: what detok shows beside two naive decoders.
 *
 * In: the traits of detok_py/notebook/player.py, in the model that anywidget gives. Out: a view.
 * The naive panes decode the bytes of each token in the page, as a chat UI would.
 */

/**
 * @typedef {[id: number | null, hex: string, states: string, text: string, name: string,
 *   at: number]} Row
 * @typedef {object} Model  What anywidget gives.
 * @property {(name: string) => any} get
 * @property {(event: string, listener: () => void) => void} on
 * @property {(event: string, listener: () => void) => void} off
 */

/** @type {Record<string, [sign: string, name: string]>} */
const STATES = {
  c: ["■", "complete"],
  h: ["◧", "held for a later token"],
  r: ["✕", "replaced by U+FFFD"],
};
const MOST_BOXES = 400;

/**
 * Make an element with a text and attributes.
 * @param {string} tag @param {Record<string, string>} [attributes] @param {string} [text]
 */
function make(tag, attributes = {}, text = "") {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

/** The bytes of a row. @param {Row} row */
function bytesOf([, hex]) {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

/** A decoder's text, which only grows. @param {string} name @param {string} title */
function makePane(name, title) {
  const text = make("div", { class: "detok-text", dir: "auto", "data-pane": name });
  const count = make("span", { class: "detok-count" });
  const pane = make("section", { "aria-label": title });
  const head = make("div", { class: "detok-head" }, title);
  head.append(" ", count);
  pane.append(head, text);
  return {
    pane,
    /** @param {string} more */
    add(more) {
      text.append(more);
      const broken = (text.textContent?.match(/\ufffd/g) ?? []).length;
      count.textContent = broken ? `${broken} × \ufffd` : "";
    },
    clear() {
      text.textContent = count.textContent = "";
    },
  };
}

/** The box of a token. @param {Row} row */
function makeBox(row) {
  const [id, hex, states, text, name] = row;
  const box = make("span", { class: "detok-token", role: "listitem" });
  const bytes = make("span", { class: "detok-bytes" });
  (hex.match(/../g) ?? []).forEach((byte, n) => {
    const state = states[n] ?? "h";
    const [sign = "", title = ""] = STATES[state] ?? [];
    bytes.append(make("span", { class: `detok-${state}`, title }, `${byte}${sign}${state}`));
  });
  box.append(bytes, make("bdi", name ? { class: "detok-special" } : {}, name || text || "\u00a0"));
  if (id !== null) box.append(make("small", {}, String(id)));
  return box;
}

/** @param {{model: Model, el: HTMLElement}} view */
function render({ model, el }) {
  /** @type {Row[]} */
  const rows = [...model.get("rows")];
  let position = 0;
  let playing = true;
  /** When the playhead was at the time `from` of the stream. */
  let started = performance.now();
  let from = 0;
  let frame = 0;
  let decoder = new TextDecoder();

  const panes = {
    held: makePane("held", "detok"),
    naive: makePane("naive", "each chunk alone: new TextDecoder().decode(chunk)"),
    stream: makePane("stream", "TextDecoder with stream: true"),
  };
  const root = make("div", { class: "detok-player", role: "group", "aria-label": "A stream" });
  const play = /** @type {HTMLButtonElement} */ (make("button", { type: "button" }, "Pause"));
  const step = /** @type {HTMLButtonElement} */ (make("button", { type: "button" }, "Step"));
  const again = /** @type {HTMLButtonElement} */ (make("button", { type: "button" }, "Again"));
  const slider = /** @type {HTMLInputElement} */ (
    make("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Token" })
  );
  const status = make("span", { class: "detok-status", role: "status" });
  const bar = make("div", { class: "detok-bar" });
  bar.append(play, step, again, slider, status);
  const list = make("div", { class: "detok-tokens", role: "list", "aria-label": "Tokens" });
  const both = make("div", { class: "detok-panes" });
  both.append(panes.held.pane, panes.naive.pane, panes.stream.pane);
  root.append(bar, both, list);
  el.append(root);

  /** Show the tokens up to `to`. @param {number} to */
  function show(to) {
    if (to < position) {
      for (const pane of Object.values(panes)) pane.clear();
      list.replaceChildren();
      decoder = new TextDecoder();
      position = 0;
    }
    for (; position < to; position++) {
      const row = /** @type {Row} */ (rows[position]);
      panes.held.add(row[3]);
      if (!row[4]) {
        const bytes = bytesOf(row);
        panes.naive.add(new TextDecoder().decode(bytes));
        panes.stream.add(decoder.decode(bytes, { stream: true }));
      }
      list.append(makeBox(row));
      if (list.childElementCount > MOST_BOXES) list.firstElementChild?.remove();
    }
    list.scrollLeft = list.scrollWidth;
    slider.max = String(rows.length);
    slider.value = String(position);
    const isEnd = position === rows.length;
    const state = model.get("state");
    root.dataset.state = isEnd ? state : "playing";
    status.textContent =
      state === "error" && isEnd
        ? model.get("note")
        : `${position} of ${rows.length} tokens${state === "streaming" ? ", more come" : ""}`;
    play.disabled = isEnd && state !== "streaming";
    step.disabled = isEnd;
    play.textContent = playing && !play.disabled ? "Pause" : "Play";
  }

  /** Show what is due, and come again in the next frame while there is more. */
  function tick() {
    frame = 0;
    if (!playing) return;
    const now = from + (performance.now() - started) * model.get("speed");
    let to = position;
    // What comes now is shown at once.
    while (to < rows.length && (model.get("state") === "streaming" || at(to) <= now)) to++;
    show(to);
    if (position < rows.length) frame = requestAnimationFrame(tick);
  }

  /** When a token came. @param {number} n */
  const at = (n) => rows[n]?.[5] ?? 0;

  /** Go on from the playhead, or stop there. @param {boolean} on */
  function setPlaying(on) {
    playing = on;
    started = performance.now();
    from = at(position);
    show(position);
    if (on && !frame) frame = requestAnimationFrame(tick);
  }

  play.addEventListener("click", () => setPlaying(!playing));
  step.addEventListener("click", () => {
    setPlaying(false);
    show(Math.min(rows.length, position + 1));
  });
  again.addEventListener("click", () => {
    show(0);
    setPlaying(true);
  });
  slider.addEventListener("input", () => {
    const to = Math.min(rows.length, Number(slider.value));
    setPlaying(false);
    show(to);
  });

  const onBatch = () => {
    const [first, more] = model.get("batch");
    if (first > rows.length) return; // `rows` brings what this view has missed
    take(first, more);
  };
  const onRows = () => {
    if (model.get("rows").length >= rows.length) take(0, model.get("rows"));
    else onChange();
  };
  /**
   * Put rows in the place of those from `first` on. Of those that are shown, bytes that were held
   * may have become text: their boxes are made anew. If the text itself has changed, all is shown
   * again.
   * @param {number} first @param {Row[]} more
   */
  const take = (first, more) => {
    const shown = rows.slice(first, position);
    rows.length = first;
    for (const row of more) rows.push(row);
    const words = (/** @type {Row | undefined} */ row) =>
      JSON.stringify(row && [row[0], row[1], row[3], row[4]]);
    if (shown.some((row, n) => words(row) !== words(rows[first + n]))) {
      const to = Math.min(position, rows.length);
      show(0);
      show(to);
    } else {
      const boxes = list.childElementCount - shown.length;
      for (const [n, before] of shown.entries()) {
        const row = /** @type {Row} */ (rows[first + n]);
        if (row[2] !== before[2]) list.children[boxes + n]?.replaceWith(makeBox(row));
      }
    }
    onChange();
  };
  const onChange = () => {
    if (playing && !frame) frame = requestAnimationFrame(tick);
    if (!playing) show(position);
  };
  /** @type {[event: string, listener: () => void][]} */
  const listeners = [
    ["change:batch", onBatch],
    ["change:rows", onRows],
    ["change:state", onChange],
  ];
  for (const [event, listener] of listeners) model.on(event, listener);
  setPlaying(true);
  return () => {
    for (const [event, listener] of listeners) model.off(event, listener);
    cancelAnimationFrame(frame);
  };
}

export default { render };
