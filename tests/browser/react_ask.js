// A component with the hook and nothing else, for test_examples.py to drive:
// `await mount(options)`.

import { createElement as h, StrictMode, useEffect } from "react";
import { createRoot } from "react-dom/client";
import { useAnswer } from "detok-web/react";

globalThis.mount = (options, source = "/stream") =>
  new Promise((resolve) => {
    const root = createRoot(document.body.appendChild(document.createElement("div")));
    const mounted = { renders: 0, unmount: () => root.unmount() };
    const Ask = () => {
      mounted.answer = useAnswer(source, options);
      mounted.renders++;
      useEffect(() => resolve(mounted), []);
      return null;
    };
    root.render(h(StrictMode, null, h(Ask)));
  });
