import { define } from "/src/element.js"; // "detok-web/element"

define();
document.querySelector("detok-text").addEventListener("finish", ({ detail: { reason, error } }) => {
  document.getElementById("status").textContent = error?.message ?? `Finished (${reason}).`;
});
