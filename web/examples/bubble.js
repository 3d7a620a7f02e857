import { connect } from "/src/index.js"; // "detok-web"

const at = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const form = /** @type {HTMLFormElement} */ (at("ask"));
/** @type {import("/src/index.js").Answer | undefined} */
let answer;
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  answer?.cancel();
  at("bubble").textContent = "";
  at("status").textContent = "Answering…";
  const prompt = String(new FormData(form).get("prompt"));
  const mine = (answer = connect("/stream", { prompt }));
  mine.addEventListener("delta", ({ detail: { channel, text } }) => {
    if (channel === "content" && mine === answer) at("bubble").append(text); // a text node, never HTML
  });
  const { reason, error } = await mine.finished;
  if (mine === answer) at("status").textContent = error?.message ?? `Finished (${reason}).`;
});
