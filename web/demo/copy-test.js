/**
 * Copy as test: the stream as a test that fails where the reader's own program breaks it. In: a
 * recording. Out: text in the clipboard: a case of the conformance suite, a test of a decoder for
 * pytest, or a test of a chat page for pytest or Playwright Test.
 *
 * The bytes are those that came, cut where they were cut. The expected text is that of detok. If
 * detok has read a format or tags, or the vocabulary's rules have changed the text, a decoder's
 * test expects the decoded bytes instead.
 */

import { button, element, makeButton } from "./dom.js";
import { placeNote } from "./help.js";

/** @typedef {import("./recording.js").Recording} Recording */

/** A test of a longer stream has about this many steps, around the first fault. */
const MOST_STEPS = 300;

/** The title and the description of a test. @typedef {{title: string, about: string}} About */

/**
 * A case as conformance/schema.json describes it. Throws if the stream cannot test a decoder.
 * @param {Recording} recording
 * @param {About} about
 */
export function conformanceCase(recording, { title, about }) {
  refuseBroken(recording);
  const [from, to] = partOf(recording);
  const { held } = recording.tracks;
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const pushes = [];
  for (let n = from; n < to; n++) {
    const { bytes, special } = recording.step(n);
    if (special === null) pushes.push({ n, bytes, text: decoder.decode(bytes, { stream: true }) });
  }
  const rest = decoder.decode();
  const decoded = pushes.map(({ text }) => text).join("") + rest;
  const whole = from === 0 && to === recording.count;
  const all = held.text(0, recording.length);
  // A decoder of bytes reads no format or tags, and does not know the rules of a vocabulary, which
  // can drop the first space. A part is tested without stop strings.
  const plain =
    whole &&
    !recording.format &&
    !recording.channels.length &&
    (recording.stop.length ? decoded.startsWith(all) : decoded === all);
  const steps = pushes.map(({ n, bytes, text }) => ({
    do: "push",
    in: hex(bytes),
    out: plain ? held.text(n, n + 1) : text,
  }));
  const last = plain ? held.text(to, recording.length) : rest;
  const options = plain && recording.stop.length ? { options: { stop: recording.stop } } : {};
  const id = "recorded/stream";
  const said = [...steps, { do: "flush", out: last }];
  return { id, since: "2.0.0", title, why: about, input: "bytes", ...options, steps: said };
}

/** @param {Recording} recording @param {About} about */
function pytestOfDecoder(recording, about) {
  return `"""${docstring(about)}

pip install pytest detok_py; name your decoder below; pytest. It may be late, but not early or wrong.
"""

import json

from detok_py.commands.conformance import judge
from my_adapter import adapter  # adapter(case) returns a stream: push(bytes) and flush() return text

CASE = json.loads(r'''${quoted(conformanceCase(recording, about))}''')


def test_the_stream_is_decoded_right():
    outcome = judge(CASE, adapter)
    assert outcome.verdict in ("right", "late"), outcome.why
`;
}

/** @param {Recording} recording @param {About} about */
function pytestOfPage(recording, about) {
  return `"""${docstring(about)}

pip install "detok_py[test]"; playwright install chromium; name your page below; pytest
"""

import http.server
import json
import threading
import time

PAGE = "http://127.0.0.1:3000"  # your chat page
ASKED = "**/v1/chat/completions"  # what it asks for an answer
DELTAS = json.loads(r'''${quoted(deltasOf(recording))}''')


class Engine(http.server.BaseHTTPRequestHandler):
    """Sends the answer; what arrives at once ends inside a character where it can."""

    def do_POST(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta in DELTAS:
            choice = {"index": 0, "delta": {"content": delta}, "finish_reason": None}
            event = {"object": "chat.completion.chunk", "choices": [choice]}
            data = f"data: {json.dumps(event, ensure_ascii=False)}\\n\\n".encode()
            at = next((n + 1 for n, byte in enumerate(data) if byte >= 0xC0), len(data))
            for part in (data[:at], data[at:]):
                self.wfile.write(part)
                self.wfile.flush()
                time.sleep(0.005)
        self.wfile.write(b"data: [DONE]\\n\\n")

    def log_message(self, *_):
        pass


def test_the_answer_is_shown_whole(page, glyph_watch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    page.route(ASKED, lambda route: route.continue_(url=address))
    page.goto(PAGE)
    page.get_by_role("textbox").fill("Hello")
    page.keyboard.press("Enter")
    glyph_watch.settle()
    glyph_watch.expect_clean()
    glyph_watch.expect_text("".join(DELTAS))
    server.shutdown()
`;
}

/** @param {Recording} recording @param {About} about */
function playwrightOfPage(recording, about) {
  return `// ${docstring(about).replaceAll("\n", "\n// ")}
//
// npm install --save-dev detok-web detok-web-pyodide @playwright/test; name your page below;
// npx playwright test
import { createServer } from "node:http";
import { test } from "detok-web/playwright";

const PAGE = "http://127.0.0.1:3000"; // your chat page
const ASKED = "**/v1/chat/completions"; // what it asks for an answer
const DELTAS = JSON.parse(String.raw\`${quoted(deltasOf(recording))}\`);

// Sends the answer; what arrives at once ends inside a character where it can.
const engine = createServer(async (request, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const content of DELTAS) {
    const choices = [{ index: 0, delta: { content }, finish_reason: null }];
    const event = JSON.stringify({ object: "chat.completion.chunk", choices });
    const data = Buffer.from(\`data: \${event}\\n\\n\`);
    const at = data.findIndex((byte) => byte >= 0xc0) + 1 || data.length;
    for (const part of [data.subarray(0, at), data.subarray(at)]) {
      response.write(part);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  response.end("data: [DONE]\\n\\n");
});

test("the answer is shown whole", async ({ page, glyphWatch }) => {
  await new Promise((resolve) => engine.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (engine.address());
  await page.route(ASKED, (route) => route.continue({ url: \`http://127.0.0.1:\${port}/\` }));
  await page.goto(PAGE);
  await page.getByRole("textbox").fill("Hello");
  await page.keyboard.press("Enter");
  await glyphWatch.settle();
  await glyphWatch.expectClean();
  await glyphWatch.expectText(DELTAS.join(""));
  engine.close();
});
`;
}

/**
 * The text that a chat page gets, in pieces. Throws if it has a �, which no page can be right with.
 * @param {Recording} recording
 */
function deltasOf(recording) {
  const { held } = recording.tracks;
  const [from, to] = partOf(recording);
  const skipped = recording.channels;
  const deltas = [];
  for (let n = from; n < to; n++) {
    const begin = held.lengthAt(n);
    const text = held.text(n, n + 1);
    if (text && !skipped.some(({ from, to }) => from <= begin && begin < to)) deltas.push(text);
  }
  if (deltas.some((text) => text.includes("\ufffd"))) throw new Error(BROKEN);
  return deltas;
}

const BROKEN =
  "The text of this stream was broken, or may have been, before it came to a page or a decoder, so a test of those can say nothing. Record it with ids, bytes or log probabilities, or report it to whom the verdict names.";

/** @param {Recording} recording */
function refuseBroken(recording) {
  const isText = recording.unit === "chunk" || recording.step(0).ids !== null;
  if (isText && recording.tracks.held.damage.some(({ kind }) => kind !== "written"))
    throw new Error(BROKEN);
}

/**
 * The steps of a test: all, or those around the first place where a decoder may fail. The first one
 * is a step before which nothing waits.
 * @param {Recording} recording
 * @returns {[number, number]}
 */
function partOf(recording) {
  const { count, places } = recording;
  if (count <= MOST_STEPS) return [0, count];
  let from = Math.max(0, (places[0] ?? 0) - MOST_STEPS / 2);
  while (from > 0 && (recording.heldBytes(from).length || recording.heldText(from))) from--;
  let to = Math.min(count, from + MOST_STEPS);
  while (to < count && recording.heldBytes(to).length) to++;
  return [from, to];
}

/** JSON for a raw string of Python or JavaScript. @param {unknown} value */
const quoted = (value) =>
  JSON.stringify(value).replace(
    /['`$\u2028\u2029]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** @param {About} about */
const docstring = ({ title, about }) =>
  `${title}\n\n${about}`.replace(/["\\]/g, "'").replace(/[^\S\n]+/g, " ");

/** @param {Uint8Array} bytes */
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @type {[label: string, make: (recording: Recording, about: About) => string][]} */
const FORMS = [
  ["pytest, of a decoder", pytestOfDecoder],
  ["pytest, of a chat page", pytestOfPage],
  ["Playwright Test, of a chat page", playwrightOfPage],
  [
    "a case of the conformance suite",
    (recording, about) => `${JSON.stringify(conformanceCase(recording, about), null, 2)}\n`,
  ],
];

/**
 * Offer the forms of a test.
 * @param {(make: (recording: Recording, about: About) => string, label: string) => void} copy
 */
export function onCopyTest(copy) {
  const menu = element("test-forms", HTMLElement);
  menu.append(
    ...FORMS.map(([label, make]) =>
      makeButton(label, () => {
        menu.hidePopover();
        copy(make, label);
      }),
    ),
  );
  menu.addEventListener("toggle", () => placeNote(menu, button("copy-test")));
}
