// The adapters fit the types of the packages that they are for.
import type { ChatModelAdapter } from "@assistant-ui/react";
import type { DeepChat } from "deep-chat";
import { detokModel } from "detok-web/assistant-ui";
import { detokHandler } from "detok-web/deep-chat";

export const model: ChatModelAdapter = detokModel("/stream", { params: { temperature: 0 } });
export const chat: Pick<DeepChat, "connect"> = {
  connect: { stream: true, handler: detokHandler("/stream", { stop: "</s>" }) },
};
// @ts-expect-error An id names one answer, and a model gives many.
detokModel("/stream", { id: "0123456789abcdef" });
