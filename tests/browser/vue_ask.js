// A component with Vue's composable, and Svelte's store, for test_examples.py to drive.

import { createApp, h } from "vue";
import { answerStore } from "detok-web/svelte";
import { useAnswer } from "detok-web/vue";

globalThis.mountVue = (options, source = () => "/stream") => {
  const element = document.body.appendChild(document.createElement("output"));
  const mounted = { renders: 0 };
  const app = createApp({
    setup() {
      mounted.answer = useAnswer(source, options);
      return () => (mounted.renders++, h("p", mounted.answer.state.value.text));
    },
  });
  app.mount(element);
  return Object.assign(mounted, { element, unmount: () => app.unmount() });
};
globalThis.answerStore = answerStore;
