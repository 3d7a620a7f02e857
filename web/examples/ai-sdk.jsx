import { useChat } from "@ai-sdk/react";
import { createRoot } from "react-dom/client";
import { DetokTransport } from "detok-web/ai-sdk";

/** @param {any} part  A part of a message, of any kind. */
const show = ({ type, text, toolName, input }) =>
  toolName ? `${toolName} ${JSON.stringify(input)}` : type === "reasoning" ? `(${text})` : text;
const log = /** @type {const} */ ({ role: "log", "aria-live": "off" });

function Chat() {
  const chat = useChat({ id: "example", transport: new DetokTransport("/stream"), resume: true });
  return (
    <form action={(form) => void chat.sendMessage({ text: String(form.get("prompt")) })}>
      {chat.messages.map(({ id, role, parts }) => (
        <p key={id} dir="auto" {...(role === "user" ? {} : log)} children={parts.map(show)} />
      ))}
      <input name="prompt" aria-label="Prompt" defaultValue="tool: " /> <button>Send</button>{" "}
      <button formAction={chat.stop}>Stop</button>
      <p role="status">{chat.error?.message ?? chat.status}</p>
    </form>
  );
}

createRoot(/** @type {Element} */ (document.getElementById("root"))).render(<Chat />);
