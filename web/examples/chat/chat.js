/**
 * A complete chat UI as an example: history, one answer at a time, reasoning and tool calls, lost
 * connections, errors with a way out.
 *
 * The library (`connect`) decodes, reconnects and resumes. history.js keeps the chats, parts.js has
 * what is in messages, message.js paints them; this file connects them, at most once a frame, and
 * reports in one status line.
 */

import { connect, warmUp } from "/src/index.js";
import {
  allChats,
  findChat,
  forgetChat,
  keepChat,
  keepRun,
  newChat,
  onOtherTabs,
  recallRun,
} from "./history.js";
import { make, makeButton, MessageView } from "./message.js";
import { addDelta, contentOf, turns } from "./parts.js";

/** @typedef {import("./history.js").Chat} Chat */
/** @typedef {import("./history.js").Message} Message */

/** Messages of a chat that are on the page; the earlier ones come by a button. */
const SHOWN = 60;

const at = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const ui = {
  log: at("log"),
  status: at("status"),
  held: at("held"),
  title: at("title"),
  engine: at("engine"),
  chats: at("chats"),
  kept: at("kept"),
  latest: at("latest"),
  showHistory: at("show-history"),
  forget: at("forget"),
  composer: /** @type {HTMLFormElement} */ (at("composer")),
  prompt: /** @type {HTMLTextAreaElement} */ (at("prompt")),
  send: /** @type {HTMLButtonElement} */ (at("send")),
  stop: /** @type {HTMLButtonElement} */ (at("stop")),
};

/** A sentence for the reader, by the code with which an answer was lost. */
const SENTENCES = new Map([
  [1001, "The bridge was closed. Start it again, then try again."],
  [1006, "The bridge can't be reached. Check that it is running, then try again."],
  [1012, "The bridge was restarted. Try again."],
  [4410, "The bridge no longer has the rest of this answer. Try again to get a new one."],
  [4429, "The bridge is busy with other chats. Wait a moment, then try again."],
]);

const CLOSED = "The page was closed before";
const OFFLINE = "You are offline. This goes on by itself when the network is back.";

let chat = newChat();
/** The views of the messages that are on the page. @type {Map<Message, MessageView>} */
let views = new Map();
/**
 * The answer that is coming.
 * @type
 *   {{chat: Chat, message: Message, answer: import("/src/index.js").Answer, saved: number,
 *   known: number} | undefined}
 */
let current;
/**
 * Suggestions, where the engine is the one that recites.
 * @type {{prompt: string, title: string, dir: string}[]}
 */
let suggestions = [];
let pinned = true;

// ---------------------------------------------------------------- status

/** @param {string} sentence */
function say(sentence) {
  if (ui.status.textContent !== sentence) ui.status.textContent = sentence;
}

/** @param {import("/src/index.js").DetokError} error */
function sentenceOf(error) {
  if (!navigator.onLine) return OFFLINE;
  return SENTENCES.get(error.code ?? 0) ?? error.message;
}

/** @param {Message} message */
function wordsIn(message) {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  const segments = [...segmenter.segment(contentOf(message))];
  const words = segments.filter(({ isWordLike }) => isWordLike).length;
  return words === 1 ? "1 word" : `${words} words`;
}

// ---------------------------------------------------------------- painting

let painting = 0;

/** Paint in the next frame. A hidden page has no frames and paints every quarter of a second. */
function paintSoon() {
  painting ||= document.hidden ? setTimeout(paint, 250) : requestAnimationFrame(paint);
}

function paint() {
  painting = 0;
  if (!current) return;
  const { message } = current;
  // A resumed answer comes again from its beginning. What is on the page stays until there is more.
  if (sizeOf(message) >= current.known) views.get(message)?.paint();
  if (current.chat === chat) follow();
}

/** @param {Message} message */
function sizeOf({ parts }) {
  return parts.reduce((sum, { text }) => sum + text.length, 0);
}

/** Stay at the end, if that is where the reader is. */
function follow() {
  if (pinned) ui.log.scrollTop = ui.log.scrollHeight;
  else ui.latest.hidden = false;
}

ui.log.addEventListener(
  "scroll",
  () => {
    const { scrollTop, scrollHeight, clientHeight } = ui.log;
    pinned = scrollHeight - scrollTop - clientHeight < 48;
    if (pinned) ui.latest.hidden = true;
  },
  { passive: true },
);

ui.latest.addEventListener("click", () => {
  pinned = true;
  follow();
  ui.latest.hidden = true;
  ui.prompt.focus();
});

/** @param {Message} message @param {boolean} last */
function viewOf(message, last) {
  const onCopy = async (/** @type {string} */ text) => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {
      say("This browser doesn't let the page copy; select the text instead.");
    }
  };
  const view = new MessageView(message, {
    onCopy,
    onAgain: last && message.role === "assistant" ? askAgain : undefined,
  });
  views.set(message, view);
  return view;
}

/** Put the chat on the page: its last messages, and a button for the earlier ones. */
function show(from = Math.max(0, chat.messages.length - SHOWN)) {
  views = new Map();
  const { messages } = chat;
  ui.log.replaceChildren();
  if (from > 0) {
    const more = () => {
      const below = ui.log.scrollHeight - ui.log.scrollTop;
      pinned = false;
      show(Math.max(0, from - SHOWN));
      ui.log.scrollTop = ui.log.scrollHeight - below;
      ui.log.focus();
    };
    const label = `Show ${Math.min(SHOWN, from)} earlier messages`;
    ui.log.append(makeButton(label, more, "quiet earlier"));
  }
  for (const message of messages.slice(from))
    ui.log.append(viewOf(message, message === messages.at(-1)).element);
  if (!messages.length) ui.log.append(welcome());
  showTitle(chat);
  follow();
}

/** @param {Chat} chat */
function showTitle({ title }) {
  ui.title.textContent = title;
  document.title = `${title} · detok`;
}

function welcome() {
  const buttons = suggestions.map(({ prompt, title, dir }) => {
    const ask = () => {
      ui.prompt.value = prompt.replace(/: $/, "");
      ui.composer.requestSubmit();
    };
    return make("li", {}, make("button", { type: "button", dir, onclick: ask }, title));
  });
  const recites =
    "The engine here is a 1 MB model that can only recite its own texts. It answers anything else with noise, which may have broken characters of its own.";
  const question = make("h2", {}, "What would you like to read?");
  const section = make("section", { className: "welcome" }, question);
  if (buttons.length) section.append(make("ul", {}, ...buttons), make("p", {}, recites));
  return section;
}

function showButtons() {
  // If the button with the focus disappears, the focus moves to the message field.
  const focused = document.activeElement === ui.send || document.activeElement === ui.stop;
  ui.send.hidden = Boolean(current);
  ui.stop.hidden = !current;
  if (focused) ui.prompt.focus();
}

// ---------------------------------------------------------------- asking

/** @param {string} text */
function ask(text) {
  if (current) return;
  if (!chat.messages.length) {
    const [line = ""] = text.trim().split("\n");
    const letters = Array.from(new Intl.Segmenter().segment(line), ({ segment }) => segment);
    chat.title = letters.slice(0, 60).join("") + (letters.length > 60 ? "…" : "");
  }
  const question = /** @type {Message} */ ({ role: "user", parts: [{ channel: "content", text }] });
  lastView()?.removeAgain();
  chat.messages.push(question);
  pinned = true;
  begin({ messages: turns(chat.messages) });
}

function askAgain() {
  if (current) return;
  const old = chat.messages.pop();
  const view = old && views.get(old);
  const focused = view?.element.contains(document.activeElement);
  if (old) views.delete(old);
  view?.element.remove();
  pinned = true;
  begin({ messages: turns(chat.messages) });
  if (focused) ui.prompt.focus();
}

function lastView() {
  const last = chat.messages.at(-1);
  return last && views.get(last);
}

/**
 * Ask the bridge for an answer. It goes into a new message; with `resume`, into the last one.
 * @param {import("/src/index.js").AnswerRequest & import("/src/index.js").Question} request
 */
function begin(request) {
  const its = chat;
  const last = its.messages.at(-1);
  const known = request.resume && last ? last : undefined;
  const message = /** @type {Message} */ ({ role: "assistant", parts: [] });
  const answer = connect("/stream", { ...request, granularity: "grapheme" });
  const saved = performance.now();
  current = { chat: its, message, answer, saved, known: known ? sizeOf(known) : 0 };
  if (known) {
    its.messages.splice(-1, 1, message);
    const view = views.get(known);
    if (view) {
      // The element that shows the known part also gets the rest.
      view.message = message;
      views.delete(known);
      views.set(message, view);
    }
  } else its.messages.push(message);
  // Never save less than what was on the page.
  const save = () => keep(its, known && sizeOf(message) < sizeOf(known) ? known : undefined);
  if (!request.resume) {
    ui.log.querySelector(".welcome")?.remove();
    // Drop old messages from the page: it may be open all day.
    if (views.size > 2 * SHOWN) show();
    for (const one of its.messages.slice(-2))
      if (!views.has(one)) ui.log.append(viewOf(one, one === message).element);
    showTitle(its);
  }
  save();
  listChats();
  showButtons();
  say("Answering…");
  follow();

  let lost = false;
  /** @param {string} type @param {(detail: any) => void} take */
  const on = (type, take) =>
    answer.addEventListener(type, (event) => take(/** @type {CustomEvent} */ (event).detail));
  on("start", ({ id }) => keepRun({ chat: its.id, run: id }));
  on("delta", (delta) => {
    addDelta(message.parts, delta);
    paintSoon();
    if (current && performance.now() - current.saved > 1000) {
      current.saved = performance.now();
      save();
    }
  });
  on("held", ({ bytes, text }) => {
    ui.held.textContent = bytes
      ? `${bytes} ${bytes === 1 ? "byte" : "bytes"} of a character held`
      : text
        ? "held: could be a tag"
        : "";
  });
  on("resume", () => {
    lost = true;
    say(navigator.onLine ? "Connection lost, trying again…" : OFFLINE);
  });
  on("token", () => {
    if (lost) say("Connected again; nothing was lost.");
    lost = false;
  });
  const offline = () => (lost = true);
  addEventListener("offline", offline);
  on("finish", ({ reason, error, note }) => {
    removeEventListener("offline", offline);
    const failed = reason === "error";
    if (failed && known && sizeOf(message) < sizeOf(known)) message.parts = known.parts;
    const sentence = failed
      ? sentenceOf(error)
      : reason === "cancelled"
        ? "Stopped."
        : reason === "length"
          ? "The engine stopped here: the answer reached its limit."
          : note;
    message.end = { reason, ...(sentence ? { sentence } : {}) };
    keepRun(undefined);
    if (sentence === OFFLINE)
      addEventListener(
        "online",
        () => its.messages.at(-1) === message && its === chat && askAgain(),
        { once: true },
      );
    const shown = views.get(message);
    current = undefined;
    shown?.paint();
    keep(its);
    if (its === chat) follow();
    listChats();
    showButtons();
    ui.held.textContent = "";
    const complete = [`Answer complete, ${wordsIn(message)}.`, sentence].filter(Boolean);
    say(failed || reason === "cancelled" ? sentence : complete.join(" "));
  });
}

/**
 * Save a chat. `instead` is saved in place of its last message.
 * @param {Chat} its
 * @param {Message} [instead]
 */
function keep(its, instead) {
  const kept = keepChat(
    instead ? { ...its, messages: [...its.messages.slice(0, -1), instead] } : its,
  );
  if (!kept)
    ui.kept.textContent =
      "This browser stores nothing for this page: the chat is lost when you close it.";
}

// ---------------------------------------------------------------- chats

function listChats() {
  const chats = allChats();
  ui.forget.hidden = !chats.length;
  ui.chats.replaceChildren(
    ...chats.map(({ id, title }) => {
      const link = make("a", { href: `#${id}`, dir: "auto", title }, title);
      if (id === chat.id) link.setAttribute("aria-current", "page");
      const remove = make("button", { type: "button", className: "quiet" }, "×");
      remove.setAttribute("aria-label", `Delete “${title}”`);
      confirming(remove, "Delete?", () => forget([id]));
      return make("li", {}, link, remove);
    }),
  );
}

/**
 * Make a button ask for confirmation in its own label before it acts.
 * @param {HTMLElement} button
 * @param {string} question
 * @param {() => void} action
 */
function confirming(button, question, action) {
  const words = button.textContent ?? "";
  const label = button.getAttribute("aria-label");
  const rest = () => {
    button.textContent = words;
    button.classList.remove("asking");
    if (label) button.setAttribute("aria-label", label);
  };
  button.addEventListener("click", () => {
    if (button.classList.contains("asking")) {
      rest();
      return action();
    }
    button.textContent = question;
    button.classList.add("asking");
    if (label) button.setAttribute("aria-label", `${label} for good?`);
    say(`${question.replace("?", "")} for good? Press again.`);
  });
  button.addEventListener("blur", rest);
}

/** @param {string[]} ids */
function forget(ids) {
  if (current && ids.includes(current.chat.id)) current.answer.cancel();
  for (const id of ids) forgetChat(id);
  if (ids.includes(chat.id)) open(undefined);
  listChats();
  say(ids.length === 1 ? "The chat is deleted." : "All chats are deleted.");
  at("new").focus();
}

/** Open a chat, or a new one. @param {string | undefined} id */
function open(id) {
  if (id && id === chat.id) return;
  const found = id === current?.chat.id ? current?.chat : id ? findChat(id) : undefined;
  chat = found ?? newChat();
  if (!found && location.hash) history.replaceState(null, "", location.pathname + location.search);
  const last = chat.messages.at(-1);
  if (last?.role === "assistant" && !last.end && current?.message !== last) {
    const waited = recallRun();
    if (waited.chat === chat.id && waited.run && !current) {
      show();
      begin({ resume: waited.run });
      return;
    }
    last.end = { reason: "error", sentence: `${CLOSED} this answer was complete.` };
  }
  if (last?.role === "user") {
    const end = { reason: "error", sentence: `${CLOSED} an answer came.` };
    chat.messages.push({ role: "assistant", parts: [], end });
  }
  pinned = true;
  show();
  showButtons();
  listChats();
  if (!current) say("");
}

/** @param {boolean} shown */
function showHistory(shown) {
  document.documentElement.classList.toggle("with-history", shown);
  ui.showHistory.setAttribute("aria-expanded", String(shown));
}

const isHistoryShown = () => document.documentElement.classList.contains("with-history");

function leaveHistory() {
  showHistory(false);
  ui.showHistory.focus();
}

// ---------------------------------------------------------------- what the reader does

ui.composer.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = ui.prompt.value.trim();
  if (!text || current) return;
  ui.prompt.value = "";
  grow();
  ask(text);
  if (location.hash !== `#${chat.id}`) history.replaceState(null, "", `#${chat.id}`);
  ui.prompt.focus();
});

ui.prompt.addEventListener("keydown", (event) => {
  // Enter confirms a word while an input method composes.
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    ui.composer.requestSubmit();
  }
});

function grow() {
  ui.prompt.style.height = "auto";
  ui.prompt.style.height = `${Math.min(ui.prompt.scrollHeight + 2, innerHeight / 3)}px`;
}
ui.prompt.addEventListener("input", grow);

ui.stop.addEventListener("click", () => current?.answer.cancel());

addEventListener("keydown", ({ key, isComposing }) => {
  if (key !== "Escape" || isComposing) return;
  if (isHistoryShown()) leaveHistory();
  else current?.answer.cancel();
});

at("new").addEventListener("click", () => {
  showHistory(false);
  open(undefined);
  ui.prompt.focus();
});

ui.showHistory.addEventListener("click", () => {
  showHistory(!isHistoryShown());
  if (isHistoryShown()) at("new").focus();
});

at("hide-history").addEventListener("click", leaveHistory);

confirming(ui.forget, "Delete all?", () => forget(allChats().map(({ id }) => id)));

addEventListener("hashchange", () => {
  showHistory(false);
  open(location.hash.slice(1));
});

addEventListener("pagehide", () => {
  if (current && sizeOf(current.message) >= current.known) keep(current.chat);
});

onOtherTabs((id) => {
  if (id === chat.id && !current) {
    chat = findChat(id) ?? chat;
    show();
  }
  listChats();
});

addEventListener("offline", () => say(OFFLINE));
addEventListener("online", () => {
  if (ui.status.textContent === OFFLINE) say(current ? "Trying again…" : "");
  void readEngine();
});

// ---------------------------------------------------------------- start

async function readEngine() {
  try {
    const { engine } = await (await fetch("/info")).json();
    ui.engine.textContent = engine.down ?? engine.line;
    if (engine.model !== "recite.gguf") return;
    ui.engine.textContent += " · only recites its own texts";
    const known = await (await fetch("/texts.json")).json();
    const chosen = ["hello", "zh-hans", "ar", "emoji", "think", "tool"];
    suggestions = chosen.flatMap((id) => known.filter((/** @type {any} */ text) => text.id === id));
    if (!chat.messages.length) show();
  } catch {
    ui.engine.textContent = "The bridge can't be reached.";
  }
}

open(location.hash.slice(1) || undefined);
if (!chat.messages.length) show();
listChats();
void readEngine();
warmUp({ onProgress: () => current || say("Loading the decoder…") }).then(
  () => ui.status.textContent === "Loading the decoder…" && say(""),
  (error) => say(error.message),
);
if (matchMedia("(min-width: 40rem)").matches) ui.prompt.focus();
