/**
 * The playhead: how many steps of a recording are on the page, and how it moves. Paints at most
 * once a frame.
 *
 * Live, the playhead is always at the end. Paused, it stays. Playing, it follows the recorded times
 * or a number of tokens a second, and waits at the end for more steps.
 */

import { PANES } from "./recording.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./recording.js").Pane} Pane */
/** @typedef {import("./panes.js").TextPane} TextPane */
/** @typedef {import("./panes.js").Part} Part */
/** @typedef {"live" | "playing" | "paused"} Mode */

/** Faster than this many tokens a second, the list of tokens is drawn only every `TIMELINE_MS`. */
const READABLE = 30;
const TIMELINE_MS = 320;
/**
 * Nobody reads 60 frames a second, and each frame costs time. These are the least milliseconds from
 * one automatic frame to the next: after a frame with one step, and after one with several.
 */
const ONE_MS = 48;
const MORE_MS = 100;
/** The most milliseconds between two frames while playing, even if the next step is due later. */
const MOST_MS = 250;

/** Moves through a recording and paints the panes. */
export class Player {
  /**
   * @param {Record<Pane, TextPane>} panes
   * @param {import("./timeline.js").Timeline} timeline
   * @param {object} tell
   * @param {(recording: Recording, step: number, kind: string) => string} tell.nameDamage
   * @param {(painted: {from: number, to: number}) => void} tell.onPaint  Called in the frame that
   *   painted steps `from` up to `to`.
   * @param {() => void} tell.onWritten  Called when all is written: only then may a layout be
   *   forced.
   */
  constructor(panes, timeline, tell) {
    this.panes = panes;
    this.timeline = timeline;
    this.tell = tell;
    /** @type {Recording | undefined} */
    this.recording = undefined;
    this.position = 0;
    /** @type {Mode} */
    this.mode = "live";
    /** Tokens a second; 0: at the recorded times. */
    this.speed = 0;
    /**
     * Where playing began: the time and the step in the recording, and the time of the frame, -1
     * until it has come.
     */
    this.begun = { at: 0, step: 0, now: -1 };
    this.scheduled = false;
    /**
     * The timer of the next frame, if it is not requested yet.
     * @type {ReturnType<typeof setTimeout> | undefined}
     */
    this.timer = undefined;
    /** How many steps the last frame painted, and when it began. */
    this.painted = 0;
    this.framed = 0;
    /** When the timeline was drawn last, and the timer for the next time. */
    this.drawn = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.later = undefined;
    /** The position that the reader chose, until it is painted. @type {number | undefined} */
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
    if (mode === "playing" || (mode === "live" && this.speed)) this.play();
    this.wake(true);
  }

  get length() {
    return this.recording?.length ?? 0;
  }

  get atEnd() {
    return this.position >= this.length;
  }

  /** How many steps are not on the page yet. */
  get behind() {
    return this.length - this.position;
  }

  /**
   * Paint in a frame that is not too soon after the last one.
   * @param {boolean} [now]  Paint in the very next frame, because the reader waits for it.
   */
  wake(now = false) {
    if (now && this.timer !== undefined) {
      clearTimeout(this.timer);
      this.timer = undefined;
      this.scheduled = false;
    }
    if (this.scheduled) return;
    this.scheduled = true;
    const paint = () => {
      this.timer = undefined;
      requestAnimationFrame((time) => {
        this.scheduled = false;
        this.#frame(time);
      });
    };
    const wait = now ? 0 : this.#nextFrame() - performance.now();
    if (wait > 0) this.timer = setTimeout(paint, wait);
    else paint();
  }

  /** When the next frame is due, by the clock of the page. */
  #nextFrame() {
    const { recording, position, begun, speed, framed } = this;
    if (this.mode === "paused" || !recording) return 0;
    // Counted from the beginning of the last frame.
    const due = framed + (this.painted > 1 ? MORE_MS : ONE_MS);
    if (this.mode === "live" || begun.now < 0 || position === recording.length) return due;
    const next = speed
      ? ((position + 1 - begun.step) * 1000) / speed
      : recording.timeOf(position) - begun.at;
    return Math.max(due, Math.min(begun.now + next, framed + MOST_MS));
  }

  pause() {
    this.mode = "paused";
    this.wake(true);
  }

  /** Play from here at the chosen speed, or from the beginning if this is the end. */
  play() {
    if (!this.recording) return;
    if (this.atEnd && this.recording.ended) this.seek(0);
    this.mode = "playing";
    const step = this.target ?? this.position;
    this.begun = { at: this.recording.timeOf(step), step, now: -1 };
    this.wake(true);
  }

  /** Follow the end while the stream grows. */
  follow() {
    this.mode = "live";
    this.wake(true);
  }

  /** @param {number} speed */
  setSpeed(speed) {
    this.speed = speed;
    const growing = this.recording && !this.recording.ended;
    if (this.mode === "playing" || (this.mode === "live" && growing && speed)) this.play();
  }

  /** Show the first `position` steps, and stay there. @param {number} position */
  seek(position) {
    this.mode = "paused";
    this.target = Math.max(0, Math.min(this.length, position));
    this.wake(true);
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
    const sought = this.target !== undefined;
    let to = from;
    if (this.target !== undefined) {
      to = this.target;
      this.target = undefined;
    } else if (this.mode === "live") to = recording.length;
    else if (this.mode === "playing") to = this.#played(recording, now);
    for (const name of PANES) {
      const [pane, track] = [this.panes[name], recording.tracks[name]];
      if (to > from) pane.append(track.text(from, to), this.#parts(recording, name, from, to));
      else if (to < from) pane.truncate(track.lengthAt(to));
    }
    this.painted = Math.abs(to - from);
    this.framed = now;
    this.position = to;
    this.#showTimeline(recording, now, sought);
    this.tell.onPaint({ from, to });
    // This comes last, because it forces a layout of the changes above.
    for (const name of PANES) this.panes[name].keepEnd();
    this.timeline.keepInView();
    this.tell.onWritten();
    if (this.mode === "playing") this.wake();
  }

  /**
   * @param {Recording} recording
   * @param {Pane} name
   * @param {number} from
   * @param {number} to
   * @returns {Part[]}
   */
  #parts(recording, name, from, to) {
    const track = recording.tracks[name];
    return recording
      .partsIn(name, track.lengthAt(from), track.lengthAt(to))
      .map(({ step, ...part }) =>
        step === undefined
          ? part
          : { ...part, name: this.tell.nameDamage(recording, step, part.kind) },
      );
  }

  /** The position that playing has reached. @param {Recording} recording @param {number} now */
  #played(recording, now) {
    const { begun, speed } = this;
    if (begun.now < 0) begun.now = now;
    const passed = now - begun.now;
    let to = this.position;
    if (speed) {
      const due = begun.step + Math.floor((passed * speed) / 1000);
      to = Math.max(to, Math.min(recording.length, due));
    } else {
      const clock = begun.at + passed;
      while (to < recording.length && recording.timeOf(to) <= clock) to++;
    }
    if (to === recording.length) {
      if (recording.ended) this.mode = "paused";
      // At the end of a growing recording the clock waits; otherwise playing would rush after a
      // pause of the stream.
      else if (!speed || passed * speed > 1000)
        this.begun = { at: recording.timeOf(to - 1), step: to, now };
    }
    return to;
  }

  /** @param {Recording} recording @param {number} now @param {boolean} sought */
  #showTimeline(recording, now, sought) {
    const { position, timeline } = this;
    const still = timeline.position === position;
    if (still && position && timeline.to === recording.length) return;
    const waited = now - this.drawn;
    const many = Math.abs(position - timeline.position) > (READABLE * waited) / 1000;
    const moving = this.mode === "playing" || !recording.ended;
    if (!sought && moving && (many || still) && waited < TIMELINE_MS) {
      this.later ??= setTimeout(() => {
        this.later = undefined;
        this.wake();
      }, TIMELINE_MS - waited);
      return;
    }
    this.drawn = now;
    timeline.show(recording, position);
  }
}
