// deep-chat. `events`: its stream mode on server-sent events. `readable`: its stream mode on plain text. `simulation`: the whole answer
// at once, which deep-chat itself shows bit by bit. `careless`: a handler of ours, not deep-chat's, that decodes each chunk by itself.
// `detok`: a handler over readAnswer.
import "deep-chat";

const mode = new URLSearchParams(location.search).get("mode") ?? "events";
const chat = document.createElement("deep-chat");
chat.style.cssText = "width: 100%; height: 90vh";

const body = (messages, stream) => ({
  stream,
  temperature: 0,
  messages: messages.map((m) => ({
    role: m.role === "ai" ? "assistant" : m.role,
    content: m.text,
  })),
});
const delta = (event) => event.choices?.[0]?.delta?.content ?? "";

if (mode === "events") {
  chat.connect = { url: "/v1/chat/completions", stream: true };
  chat.requestInterceptor = (request) => ({ ...request, body: body(request.body.messages, true) });
  chat.responseInterceptor = (event) => ({ text: delta(event) });
} else if (mode === "readable") {
  chat.connect = { url: "/api/text", stream: { readable: true } };
  chat.responseInterceptor = (text) => ({ text });
} else if (mode === "simulation") {
  chat.connect = { url: "/v1/chat/completions", stream: { simulation: 6 } };
  chat.requestInterceptor = (request) => ({ ...request, body: body(request.body.messages, false) });
  chat.responseInterceptor = (whole) => ({ text: whole.choices[0].message.content });
} else if (mode === "detok") {
  chat.connect = {
    stream: true,
    handler: async ({ messages }, signals) => {
      const { readAnswer } = await import("detok-web/fetch");
      const answer = fetch("/v1/chat/completions", {
        method: "POST",
        body: JSON.stringify(body(messages, true)),
      });
      signals.onOpen();
      for await (const { text } of readAnswer(answer)) signals.onResponse({ text });
      signals.onClose();
    },
  };
} else {
  chat.connect = {
    stream: true,
    handler: async ({ messages }, signals) => {
      const answer = await fetch("/api/text", {
        method: "POST",
        body: JSON.stringify({ messages }),
      });
      signals.onOpen();
      for await (const chunk of answer.body)
        signals.onResponse({ text: new TextDecoder().decode(chunk) });
      signals.onClose();
    },
  };
}
document.getElementById("root").append(chat);
