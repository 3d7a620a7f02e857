// useChat of the AI SDK, as its guide writes it: `messages` over its own stream of UI messages, `text` over a stream of plain text.
// `detok`: DetokTransport and a bridge.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, TextStreamChatTransport } from "ai";
import { DetokTransport } from "detok-web/ai-sdk";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const mode = new URLSearchParams(location.search).get("mode") ?? "messages";
const transports = {
  messages: () => new DefaultChatTransport({ api: "/api/messages" }),
  text: () => new TextStreamChatTransport({ api: "/api/text" }),
  detok: () => new DetokTransport("/stream"),
};
const transport = transports[mode]();

function Chat() {
  const { messages, sendMessage, status } = useChat({ transport });
  const [input, setInput] = useState("");
  return (
    <>
      <div role="log" aria-busy={status !== "ready" && status !== "error"}>
        {messages.map((message) => (
          <article
            key={message.id}
            data-role={message.role}
            dir="auto"
            style={{ whiteSpace: "pre-wrap" }}
          >
            {message.parts.map((part, i) =>
              part.type === "text" ? <span key={i}>{part.text}</span> : null,
            )}
          </article>
        ))}
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          sendMessage({ text: input });
          setInput("");
        }}
      >
        <input
          aria-label="Message"
          value={input}
          onChange={(event) => setInput(event.target.value)}
        />
      </form>
    </>
  );
}
createRoot(document.getElementById("root")).render(<Chat />);
