/**
 * What the pages that test the client library share. Loaded before the library, so that it can
 * count and end the library's workers.
 */

const EVENTS = "hello start delta token held resume notice error finish";
const workers = [];
const policy = window.trustedTypes?.createPolicy("test", { createScriptURL: (url) => url });
window.Worker = class extends Worker {
  constructor(url, options) {
    const own = new URL(window.otherWorker ?? url, location.href).href;
    super(policy?.createScriptURL(own) ?? own, options);
    workers.push(this);
  }
};

const until = async (done) => {
  for (const late = Date.now() + 60_000; !(await done()); await sleep(10))
    if (Date.now() > late) throw new Error(`not in a minute: ${done}`);
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

Object.assign(window, {
  sleep,
  until,
  workers,
  /** End the newest worker as a browser does that has no memory left: nobody is told. */
  killWorker: () => workers.at(-1).terminate(),
  /**
   * Bytes of WebAssembly memory; of a page that said `otherWorker = "/pages/measured-worker.js"`
   * before it began.
   */
  memoryOfPython: () =>
    new Promise((resolve) => {
      workers
        .at(-1)
        .addEventListener("message", ({ data }) => data.measured && resolve(data.measured));
      workers.at(-1).postMessage({ measure: true });
    }),

  /**
   * A source that gives these chunks, one whenever it is asked. `cancelled` resolves when it is.
   */
  sourceOf(chunks) {
    const left = [...chunks];
    let cancel;
    const cancelled = new Promise((resolve) => (cancel = resolve));
    const pull = (controller) =>
      left.length ? controller.enqueue(left.shift()) : controller.close();
    const source = new ReadableStream({ pull, cancel: () => cancel() }, { highWaterMark: 0 });
    return Object.assign(source, { cancelled });
  },
  bytesOf: (text, size = 1) => {
    const bytes = new TextEncoder().encode(text);
    return Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
      bytes.slice(n * size, (n + 1) * size),
    );
  },
  fromHex: (hex) => new Uint8Array(hex.match(/../g)?.map((pair) => parseInt(pair, 16)) ?? []),

  /** All parts of a stream. */
  async partsOf(readable) {
    const parts = [];
    const reader = readable.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read())
      parts.push(part.value);
    return parts;
  },
  /**
   * What comes out of a stream after each chunk, then after the end, and how it ended. A write that
   * fails has the name of its error instead. The reader always waits.
   */
  async fed(stream, chunks) {
    const parts = [];
    const reader = stream.readable.getReader();
    const reading = (async () => {
      for (let part = await reader.read(); !part.done; part = await reader.read())
        parts.push(part.value);
    })();
    const writer = stream.writable.getWriter();
    const steps = [];
    const step = async (writing) => {
      const failed = await writing.then(() => stream.ready()).catch(({ name }) => name);
      await sleep(0);
      steps.push(failed ?? parts.splice(0));
    };
    for (const chunk of chunks) await step(writer.write(chunk));
    await step(writer.close());
    await reading.catch(() => {});
    return [steps, (await stream.finished).reason];
  },
  /** One SHA-256 of very many lines. */
  async digestOf(lines) {
    let digest = "";
    const part = [];
    const add = async () => {
      const text = new TextEncoder().encode(digest + part.splice(0).join("\n"));
      const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
      digest = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    };
    for await (const line of lines) if (part.push(line) === 65_536) await add();
    if (part.length) await add();
    return digest;
  },
  /** All events of an answer, as [type, detail]; errors as their messages. */
  eventsOf(answer) {
    const events = [];
    for (const type of EVENTS.split(" ")) {
      answer.addEventListener(type, ({ detail }) =>
        events.push([type, { ...detail, ...(detail.error && { error: String(detail.error) }) }]),
      );
    }
    return events;
  },
  /** What a promise came to, within a time that nothing here needs. */
  async outcome(promise) {
    const late = sleep(100_000).then(() => "hangs");
    return Promise.race([
      Promise.resolve(promise).then(
        (value) => value ?? "done",
        (error) => `${error?.name}: ${error?.message}`,
      ),
      late,
    ]);
  },
});

/** The library is here. */
window.ready = (lib, { decoderWorker }) => {
  /** How many streams Python still holds, once those that are being let go of are gone. */
  window.openStreams = async (options = { runtime: "micropython" }) => {
    for (const late = Date.now() + 60_000; ; await sleep(20)) {
      const open = await decoderWorker(options).ask("open_streams");
      if (!open || Date.now() > late) return open;
    }
  };
  window.lib = lib;
};
