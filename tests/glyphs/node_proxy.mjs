// The proxy in Node for tests in Python: a line of JSON in is a call, a line out is what it
// returned.
import { createInterface } from "node:readline";
import { ChaosProxy } from "../../web/kit/proxy.mjs";
import { startPython } from "../../web/kit/python.mjs";

const python = await startPython();
const proxies = [];
const calls = {
  open: (options) => proxies.push(new ChaosProxy(python, options)) - 1,
  url: (at, address) => proxies[at].url(address),
  listen: (at, upstream) => proxies[at].listen(upstream ?? undefined),
  close: (at) => proxies[at].close(),
  state: (at) => {
    const { traffic, sentText } = proxies[at];
    const answers = [];
    for (const { url, bytes, pieces, asked } of traffic.answers)
      answers.push({ url, bytes, pieces, asked: [...asked] });
    return { answers, sent_text: sentText ?? null, problems: [...traffic.problems] };
  },
};
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...words] = JSON.parse(line);
  try {
    console.log(JSON.stringify({ value: (await calls[name](...words)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
}
