// Every module for pages can be imported where there is no page: a server that renders, a test
// runner.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createElement } from "react";
import { renderToString } from "react-dom/server";

test("the adapters import on a server and do nothing there", async () => {
  const { define, DetokText } = await import("../../web/src/element.js");
  define();
  assert.equal(typeof DetokText, "function");
  assert.equal(typeof (await import("../../web/src/fetch.js")).readAnswer, "function");
  assert.equal(typeof (await import("../../web/src/ai-sdk.js")).DetokTransport, "function");
});

test("the hook renders on a server as an answer that was not asked for", async () => {
  const { useAnswer } = await import("../../web/src/react.js");
  const Ask = () => {
    const { text, status } = useAnswer("/stream");
    return createElement("p", null, `${status}:${text}`);
  };
  assert.equal(renderToString(createElement(Ask)), "<p>ready:</p>");
});

test("a transport without a memory says that no answer is waited for", async () => {
  const { DetokTransport } = await import("../../web/src/ai-sdk.js");
  assert.equal(await new DetokTransport("/stream").reconnectToStream({ chatId: "x" }), null);
});
