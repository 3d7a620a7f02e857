import { connect } from "/src/index.js"; // "detok-web"

const [form, bubble, status] = ["form", "#bubble", "#status"].map((found) => document.querySelector(found));
let answer;
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  answer?.cancel();
  bubble.textContent = "";
  status.textContent = "Answering…";
  const mine = (answer = connect("/stream", { prompt: form.elements.prompt.value }));
  mine.addEventListener("delta", ({ detail: { channel, text } }) => {
    if (channel === "content" && mine === answer) bubble.append(text); // a text node, never HTML
  });
  const { reason, error } = await mine.finished;
  if (mine === answer) status.textContent = error?.message ?? `Finished (${reason}).`;
});
