import { useChat } from "@ai-sdk/react";
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { DetokTransport } from "detok-web/ai-sdk";

const transport = new DetokTransport("/stream");
const seen = { text: (part) => part.text, reasoning: (part) => `(${part.text})`, "dynamic-tool": (part) => `${part.toolName} ${JSON.stringify(part.input)}` };

function Chat() {
  const { messages, sendMessage, status, stop, error } = useChat({ id: "example", transport, resume: true });
  const ask = (form) => void sendMessage({ text: form.get("prompt") });
  return h("main", null,
    messages.map(({ id, role, parts }) => h("p", { key: id, role: role === "user" ? undefined : "log", "aria-live": "off", dir: "auto" },
      parts.map((part) => seen[part.type]?.(part)))),
    h("form", { action: ask }, h("label", null, "Prompt ", h("input", { name: "prompt", defaultValue: "tool: " })), " ", h("button", null, "Send"), " ",
      h("button", { type: "button", onClick: stop }, "Stop")),
    h("p", { role: "status" }, error ? error.message : status));
}

createRoot(document.getElementById("root")).render(h(Chat));
