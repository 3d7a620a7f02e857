import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { useAnswer } from "detok-web/react";

function Ask() {
  const { text, reasoning, status, error, send, stop } = useAnswer("/stream");
  return (
    <form action={(form) => void send(String(form.get("prompt")))}>
      <label htmlFor="prompt">Prompt</label>{" "}
      <input id="prompt" name="prompt" defaultValue="think: " /> <button>Send</button>{" "}
      <button formAction={stop}>Stop</button>
      <details hidden={!reasoning}>
        <summary>Reasoning</summary>
        <p dir="auto">{reasoning}</p>
      </details>
      <p role="log" aria-live="off" dir="auto" children={text} />
      <p role="status">{error?.message ?? status}</p>
    </form>
  );
}

const root = createRoot(/** @type {Element} */ (document.getElementById("root")));
root.render(<StrictMode children={<Ask />} />);
