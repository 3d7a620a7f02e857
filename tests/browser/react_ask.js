// A component with the hook and nothing else, for test_examples.py to drive:
// `await mount(options)`. `atMount` is what a component in it does with `send` in its own effect.

import { createElement as h, StrictMode, useEffect } from "react";
import { createRoot } from "react-dom/client";
import { useAnswer } from "detok-web/react";

globalThis.mount = (options, source = "/stream", atMount = undefined) =>
  new Promise((resolve) => {
    const root = createRoot(document.body.appendChild(document.createElement("div")));
    const mounted = { renders: 0, unmount: () => root.unmount() };
    const Inner = ({ send }) => void useEffect(() => void atMount?.(send), []);
    const Ask = () => {
      mounted.answer = useAnswer(source, options);
      mounted.renders++;
      useEffect(() => resolve(mounted), []);
      return h(Inner, mounted.answer);
    };
    root.render(h(StrictMode, null, h(Ask)));
  });
