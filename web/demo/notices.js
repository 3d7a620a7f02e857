/**
 * The messages of the page: the alert, which can have one button, and the status line, which is for
 * screen readers only.
 */

import { button, element, makeButton } from "./dom.js";

const alert = element("alert", HTMLElement);
const status = element("status", HTMLElement);
const reading = element("reading", HTMLElement);
const readingStep = element("reading-step", HTMLElement);
const readingBar = element("reading-bar", HTMLProgressElement);
const pause = button("pause");

/** @typedef {{label: string, action: () => void}} WayOut */

/** That of every alert without one of its own. @type {WayOut | undefined} */
let lasting;

/** @param {WayOut | undefined} wayOut */
export function keepWayOut(wayOut) {
  lasting = wayOut;
}

/** @param {string} sentence @param {WayOut} [wayOut] */
export function showAlert(sentence, wayOut = lasting) {
  alert.textContent = sentence;
  if (wayOut) alert.append(" ", makeButton(wayOut.label, wayOut.action));
  alert.hidden = false;
}

export function hideAlert() {
  leave(alert);
  alert.hidden = true;
  alert.textContent = "";
}

/** The focus does not fall to the page's beginning with a notice. @param {HTMLElement} notice */
function leave(notice) {
  if (notice.contains(document.activeElement)) pause.focus({ preventScroll: true });
}

/** Whether an element is in the alert. @param {Element | null} element */
export const alertHas = (element) => alert.contains(element);

/** @param {string} sentence */
export function sayStatus(sentence) {
  status.textContent = sentence;
}

/** @param {unknown} error */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/**
 * Say that a file is being read, and how far that is.
 * @param {string} sentence
 * @param {number} share  Of 1.
 */
export function showReading(sentence, share) {
  readingStep.textContent = sentence;
  readingBar.value = share;
  if (reading.hidden) sayStatus(sentence);
  reading.hidden = false;
}

export function hideReading() {
  leave(reading);
  reading.hidden = true;
}
