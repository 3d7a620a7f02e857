import { define } from "/src/element.js"; // "detok-web/element"

define();
document.querySelector("detok-text")?.addEventListener("finish", (event) => {
  const { reason, error } = /** @type {CustomEvent} */ (event).detail;
  const status = /** @type {HTMLElement} */ (document.getElementById("status"));
  status.textContent = error?.message ?? `Finished (${reason}).`;
});
