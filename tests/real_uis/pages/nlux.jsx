// NLUX. `nlbridge` and `langchain`: its own adapters. `mended`: an adapter of our own, the loop of nlbridge with the two lines that mend it.
// `detok`: an adapter over DetokStream.
import { createAiChat } from "@nlux/core";
import { createChatAdapter as createLangServeAdapter } from "@nlux/langchain";
import { createChatAdapter as createBridgeAdapter } from "@nlux/nlbridge";
import "@nlux/themes/nova.css";

const mode = new URLSearchParams(location.search).get("mode") ?? "nlbridge";
const ask = (message) =>
  fetch("/api/nlbridge", { method: "POST", body: JSON.stringify({ payload: { message } }) });

const adapters = {
  nlbridge: () => createBridgeAdapter().withUrl("/api/nlbridge"),
  langchain: () => createLangServeAdapter().withUrl("/api/langserve").withInputSchema(false),
  mended: () => ({
    async streamText(message, observer) {
      const { body } = await ask(message);
      const decoder = new TextDecoder();
      for await (const chunk of body) observer.next(decoder.decode(chunk, { stream: true }));
      observer.next(decoder.decode());
      observer.complete();
    },
  }),
  detok: () => ({
    async streamText(message, observer) {
      const { DetokStream } = await import("detok-web");
      const { body } = await ask(message);
      const stream = new DetokStream({ stop: ["</s>"] });
      for await (const text of body.pipeThrough(stream)) observer.next(text);
      observer.complete();
    },
  }),
};
const chat = createAiChat().withAdapter(adapters[mode]());
// NLUX types an answer out and may lose its last characters (docs/reproductions/nlux-end.md), but not without the animation.
if (mode === "mended" || mode === "detok")
  chat.withMessageOptions({ skipStreamingAnimation: true });
chat.mount(document.getElementById("root"));
