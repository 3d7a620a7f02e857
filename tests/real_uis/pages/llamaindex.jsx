// @llamaindex/chat-ui over the AI SDK's useChat, as its README has it. `messages`: the SDK's own stream. `detok`: DetokTransport and a bridge.
import { useChat } from "@ai-sdk/react";
import { ChatSection } from "@llamaindex/chat-ui";
import "@llamaindex/chat-ui/styles/markdown.css";
import { DefaultChatTransport } from "ai";
import { DetokTransport } from "detok-web/ai-sdk";
import { createRoot } from "react-dom/client";

const mode = new URLSearchParams(location.search).get("mode") ?? "messages";
const transport =
  mode === "detok"
    ? new DetokTransport("/stream")
    : new DefaultChatTransport({ api: "/api/messages" });

function Chat() {
  return <ChatSection handler={useChat({ transport })} />;
}
createRoot(document.getElementById("root")).render(<Chat />);
