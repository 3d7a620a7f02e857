// Gives the page the pieces of a stream as the proxy cut it, where the browser has joined them, and
// notes where the chunks ended that the page got. reads.py says why.
//
// The proxy numbers its streams in a header. The `body` of such a response is a stream with the
// same bytes, which asks for a chunk only when the page does.
(() => {
  "use strict";
  const post = window.__detokGlyphsPost,
    native = Object.getOwnPropertyDescriptor(Response.prototype, "body"),
    later = window.setTimeout.bind(window);
  const PAUSES = 50; // between the parts of one chunk; more would make the page late
  if (!post || !native || window.__detokReads) return;

  // No timer: what the page does after a pause would be nested in it, so that the page's own timers
  // of 0 ms would take 4 ms (HTML, "timer nesting level") and be overtaken by later ones.
  const { port1, port2 } = new MessageChannel(),
    paused = [];
  port1.onmessage = () => paused.shift()();
  const pause = () => new Promise((go) => port2.postMessage(paused.push(go)));
  const all = []; // one { stream, ends } for each body
  let patience = 4000; // milliseconds to wait for an answer of the harness
  const ask = async (message) => {
    const silence = new Promise((give) => later(give, patience, "silence"));
    try {
      const answer = await Promise.race([post(JSON.stringify(message)), silence]);
      // A harness that sleeps in a test must not make the page late at each chunk.
      if (answer === "silence") patience /= 2;
      else return JSON.parse(answer || "null");
    } catch {
      /* the harness has gone */
    }
    return null;
  };
  /** Whether a cut inside a chunk could break a careless reader; `before` ends in front of it. */
  const isRisky = (chunk, before) =>
    chunk.length > 1 &&
    (/\\(u[0-9a-f]{0,3})?$/i.test(before) ||
      chunk.subarray(1).some((byte) => (byte & 0xc0) === 0x80) ||
      chunk.subarray(0, -1).some((byte) => byte === 10 || byte === 13 || byte === 92));

  const streamOf = (source) => {
    try {
      return new ReadableStream({ ...source, type: "bytes" });
    } catch {
      return new ReadableStream(source, { highWaterMark: 0 }); // a browser without byte streams
    }
  };
  const recut = (body, stream) => {
    const record = { stream, ends: [] },
      waiting = []; // the rest of a chunk that was joined
    let reader,
      isCut = true,
      at = 0,
      before = "",
      every = 1; // how many parts come between two pauses
    all.push(record);
    const split = async (chunk) => {
      const isAsked = isCut && isRisky(chunk, before),
        found = isAsked && (await ask({ stream, within: [at, at + chunk.length] }));
      isCut &&= !found || !!found.cuts; // the proxy leaves files alone
      before = (before + String.fromCharCode(...chunk.subarray(-6))).slice(-6);
      let begin = 0;
      for (const cut of found?.cuts ?? []) {
        waiting.push(chunk.slice(begin, cut - at));
        begin = cut - at;
      }
      waiting.push(chunk.slice(begin));
      every = Math.ceil(waiting.length / PAUSES);
    };
    return streamOf({
      async pull(controller) {
        reader ??= body.getReader();
        if (waiting.length) {
          // A pause lets the browser paint.
          if (waiting.length % every === 0) await pause();
        } else {
          const { done, value } = await reader.read();
          if (done) {
            ask(record);
            controller.close();
            return controller.byobRequest?.respond(0);
          }
          await split(value);
        }
        const piece = waiting.shift();
        record.ends.push((at += piece.length));
        controller.enqueue(piece);
      },
      cancel(reason) {
        ask(record);
        return (reader ?? body).cancel(reason);
      },
    });
  };

  const bodies = new WeakMap();
  const get = function () {
    const body = native.get.call(this),
      // A response that a script has made may have copied the header.
      stream = body && this.url && this.headers.get("detok-stream");
    if (!stream) return body;
    if (!bodies.has(body)) bodies.set(body, recut(body, stream));
    return bodies.get(body);
  };
  Object.defineProperty(Response.prototype, "body", { ...native, get });
  Object.defineProperty(window, "__detokReads", { value: all, configurable: true });
  window.addEventListener("pagehide", () => all.forEach(ask), true);
})();
