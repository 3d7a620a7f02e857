import { createElement as h, StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { useAnswer } from "detok-web/react";

function Ask() {
  const [prompt, setPrompt] = useState("think: ");
  const { text, reasoning, status, error, send, stop } = useAnswer("/stream");
  const idle = status === "ready" || status === "error";
  const ask = (event) => (event.preventDefault(), send(prompt));
  return h("form", { onSubmit: ask },
    h("label", null, "Prompt ", h("input", { value: prompt, onChange: (event) => setPrompt(event.target.value) })), " ",
    idle ? h("button", { key: "send" }, "Send") : h("button", { key: "stop", type: "button", onClick: stop }, "Stop"),
    reasoning && h("details", null, h("summary", null, "Reasoning"), h("p", { dir: "auto" }, reasoning)),
    h("p", { role: "log", "aria-live": "off", dir: "auto" }, text),
    h("p", { role: "status" }, error ? error.message : status));
}

createRoot(document.getElementById("root")).render(h(StrictMode, null, h(Ask)));
