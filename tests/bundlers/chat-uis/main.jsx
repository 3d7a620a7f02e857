// The bridge and the options of an answer are in the address; `ui` says which of the two is shown.
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePartPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  useLocalRuntime,
} from "@assistant-ui/react";
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";
import "deep-chat";
import { detokModel } from "detok-web/assistant-ui";
import { detokHandler } from "detok-web/deep-chat";

const { bridge, options, ui } = Object.fromEntries(new URL(location).searchParams);
const given = JSON.parse(options);

const parts = {
  Text: () => h(MessagePartPrimitive.Text, { smooth: false, component: "p" }),
  Reasoning: ({ text }) => h("i", null, text),
  tools: { Fallback: ({ toolName, argsText }) => h("code", null, `${toolName}(${argsText})`) },
};
const Message = () =>
  h(MessagePrimitive.Root, null, h(MessagePrimitive.Parts, { components: parts }));
function Chat() {
  const runtime = useLocalRuntime(detokModel(bridge, given));
  return h(
    AssistantRuntimeProvider,
    { runtime },
    h(ThreadPrimitive.Messages, { components: { Message } }),
    h(
      ComposerPrimitive.Root,
      null,
      h(ComposerPrimitive.Input, { "aria-label": "Message" }),
      h(ComposerPrimitive.Send, null, "Send"),
      h(ComposerPrimitive.Cancel, null, "Stop"),
    ),
  );
}

const root = document.getElementById("root");
if (ui === "assistant-ui") createRoot(root).render(h(Chat));
else {
  const chat = document.createElement("deep-chat");
  chat.connect = { stream: true, handler: detokHandler(bridge, given) };
  chat.errorMessages = { displayServiceErrorMessages: true };
  root.append(chat);
}
