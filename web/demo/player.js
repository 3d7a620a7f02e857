/**
 * The playhead: how many steps of a recording are on the page, and how it moves. Paints at most once a frame.
 *
 * Live, the playhead is always at the end. Paused, it stays. Playing, it follows the recorded times, slower or faster, and
 * waits at the end for what is still to come.
 */

import { PANES } from "./recording.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./recording.js").Pane} Pane */
/** @typedef {import("./panes.js").TextPane} TextPane */
/** @typedef {"live" | "playing" | "paused"} Mode */

/** With more new tokens than this in a frame, the timeline is drawn only every `TIMELINE_MS`. */
const READABLE = 12;
const TIMELINE_MS = 150;

/** Moves through a recording and paints the panes. */
export class Player {
  /**
   * @param {Record<Pane, TextPane>} panes
   * @param {import("./timeline.js").Timeline} timeline
   * @param {(painted: {from: number, to: number}) => void} onPaint  Called in the frame that painted steps `from` up to `to`.
   */
  constructor(panes, timeline, onPaint) {
    this.panes = panes;
    this.timeline = timeline;
    this.onPaint = onPaint;
    /** @type {Recording | undefined} */
    this.recording = undefined;
    this.position = 0;
    /** @type {Mode} */
    this.mode = "live";
    this.speed = 1;
    /** Where playing began: a time of the recording, and the frame time at which it was there. */
    this.begun = { at: 0, now: 0 };
    this.scheduled = false;
    /** When the timeline was drawn last. */
    this.drawn = 0;
    /** @type {number | undefined} */
    this.target = undefined;
  }

  /** Show another recording from its first step. @param {Recording} recording @param {Mode} mode */
  load(recording, mode) {
    this.recording = recording;
    this.position = 0;
    this.target = undefined;
    this.mode = mode;
    for (const name of PANES) this.panes[name].clear();
    this.timeline.clear();
    if (mode === "playing") this.play();
    this.wake();
  }

  get length() {
    return this.recording?.length ?? 0;
  }

  get atEnd() {
    return this.position >= this.length;
  }

  /** Paint in the next frame. */
  wake() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame((now) => {
      this.scheduled = false;
      this.#frame(now);
    });
  }

  pause() {
    this.mode = "paused";
    this.wake();
  }

  /** Play from here at the chosen speed, or from the beginning if this is the end. */
  play() {
    if (!this.recording) return;
    if (this.atEnd && this.recording.ended) this.seek(0);
    this.mode = "playing";
    this.begun = { at: this.recording.steps[this.target ?? this.position]?.at ?? 0, now: -1 };
    this.wake();
  }

  /** Stay at the end, also while the stream grows. */
  follow() {
    this.mode = "live";
    this.wake();
  }

  /** @param {number} speed */
  setSpeed(speed) {
    this.speed = speed;
    if (this.mode === "playing") this.play();
  }

  /** Show the first `position` steps, and stay there. @param {number} position */
  seek(position) {
    this.mode = "paused";
    this.target = Math.max(0, Math.min(this.length, position));
    this.wake();
  }

  /** @param {number} by */
  step(by) {
    this.seek((this.target ?? this.position) + by);
  }

  /** @param {number} now */
  #frame(now) {
    const { recording } = this;
    if (!recording) return;
    const from = this.position;
    let to = from;
    if (this.target !== undefined) {
      to = this.target;
      this.target = undefined;
    } else if (this.mode === "live") to = recording.length;
    else if (this.mode === "playing") {
      if (this.begun.now < 0) this.begun.now = now;
      const clock = this.begun.at + (now - this.begun.now) * this.speed;
      while (to < recording.length && recording.step(to).at <= clock) to++;
      // At the end of a growing recording the clock waits, so that playing does not rush after a pause of the stream.
      if (to === recording.length && !recording.ended)
        this.begun = { at: recording.steps[to - 1]?.at ?? 0, now };
      if (to === recording.length && recording.ended) this.mode = "paused";
    }
    for (const name of PANES) {
      const pane = this.panes[name];
      if (to > from) pane.append(recording.text(name, from, to));
      else if (to < from) pane.truncate(pane.length - recording.text(name, to, from).length);
    }
    this.position = to;
    this.#showTimeline(recording, now);
    this.onPaint({ from, to });
    // Last, because it forces a layout of all that was written above.
    for (const name of PANES) this.panes[name].keepEnd();
    this.timeline.keepEnd();
    if (this.mode === "playing") this.wake();
  }

  /** @param {Recording} recording @param {number} now */
  #showTimeline(recording, now) {
    const { position, timeline } = this;
    if (timeline.to === position && position) return;
    const many = Math.abs(position - timeline.to) > READABLE;
    if (many && !recording.ended && now - this.drawn < TIMELINE_MS) return this.wake();
    this.drawn = now;
    timeline.show(recording, position);
  }
}
