// assistant-ui over the AI SDK's stream. `smooth`: its message parts as they come, which type the answer out; `plain`: the same with smooth={false}.
// `detok`: smooth={false}, DetokTransport and a bridge.
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePartPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import { AssistantChatTransport, useChatRuntime } from "@assistant-ui/react-ai-sdk";
import { DetokTransport } from "detok-web/ai-sdk";
import { createRoot } from "react-dom/client";

const mode = new URLSearchParams(location.search).get("mode") ?? "smooth";
const transport =
  mode === "detok"
    ? new DetokTransport("/stream")
    : new AssistantChatTransport({ api: "/api/messages" });
const Plain = () => (
  <MessagePartPrimitive.Text smooth={false} component="p" style={{ whiteSpace: "pre-line" }} />
);
const Message = () => (
  <MessagePrimitive.Root dir="auto">
    <MessagePrimitive.Parts components={mode !== "smooth" ? { Text: Plain } : undefined} />
  </MessagePrimitive.Root>
);
function Chat() {
  const runtime = useChatRuntime({ transport });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Viewport>
          <ThreadPrimitive.Messages components={{ Message }} />
        </ThreadPrimitive.Viewport>
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}
createRoot(document.getElementById("root")).render(<Chat />);
