/**
 * The chats of this browser, in localStorage: one entry for each chat, so that two tabs do not
 * overwrite each other's.
 *
 * At most 50 chats of 200 messages are kept; the oldest are deleted first, also when the storage is
 * full. If the browser stores nothing (a private window may refuse), chats live as long as the
 * page.
 */

/**
 * @typedef {import("/src/index.js").Delta} Part  `text` is that of its deltas; those of one call
 *   are one part.
 * @typedef {{reason: string, sentence?: string}} End  `sentence` says what went wrong, or what the
 *   engine lost.
 * @typedef {{role: "user" | "assistant", parts: Part[], end?: End}} Message  An answer without
 *   `end` is not complete.
 * @typedef {{id: string, title: string, at: number, messages: Message[]}} Chat
 */

const KEY = "detok.chat.";
const WAITED = "detok.chat-run";
const MAX_CHATS = 50;
const MAX_MESSAGES = 200;

/** Chats that could not be stored. @type {Map<string, string>} */
const memory = new Map();

/** The keys and values of all chats. @returns {[string, string][]} */
function entries() {
  const found = [...memory];
  try {
    for (const key of Object.keys(localStorage))
      if (key.startsWith(KEY) && !memory.has(key))
        found.push([key, localStorage.getItem(key) ?? ""]);
  } catch {
    // nothing can be stored here
  }
  return found;
}

/** All chats, the latest first. Damaged ones are left out. @returns {Chat[]} */
export function allChats() {
  return entries()
    .flatMap(([, value]) => parse(value) ?? [])
    .sort((one, other) => other.at - one.at);
}

/** @param {string} id @returns {Chat | undefined} */
export function findChat(id) {
  const found = entries().find(([key]) => key === KEY + id);
  return found && parse(found[1]);
}

/** @returns {Chat} */
export function newChat() {
  // Not crypto.randomUUID, which is missing on plain HTTP from another machine.
  return {
    id: Date.now().toString(36) + Math.random().toString(36).slice(2),
    title: "New chat",
    at: Date.now(),
    messages: [],
  };
}

/**
 * Keep a chat.
 * @param {Chat} chat
 * @returns {boolean} Whether it was stored.
 */
export function keepChat(chat) {
  chat.at = Date.now();
  chat.messages.splice(0, chat.messages.length - MAX_MESSAGES);
  const value = JSON.stringify(chat);
  const older = allChats().filter(({ id }) => id !== chat.id);
  for (const { id } of older.splice(MAX_CHATS - 1)) forgetChat(id);
  for (;;) {
    try {
      localStorage.setItem(KEY + chat.id, value);
      memory.delete(KEY + chat.id);
      return true;
    } catch {
      const oldest = older.pop();
      if (!oldest) break;
      forgetChat(oldest.id);
    }
  }
  memory.set(KEY + chat.id, value);
  return false;
}

/** @param {string} id */
export function forgetChat(id) {
  memory.delete(KEY + id);
  try {
    localStorage.removeItem(KEY + id);
  } catch {
    // nothing was stored
  }
}

/**
 * Remember across a reload which answer this tab waits for; undefined if none.
 * @param {{chat: string, run: string} | undefined} waited
 */
export function keepRun(waited) {
  try {
    if (waited) sessionStorage.setItem(WAITED, JSON.stringify(waited));
    else sessionStorage.removeItem(WAITED);
  } catch {
    // nothing can be stored: after a reload the answer is incomplete
  }
}

/** @returns {{chat?: string, run?: string}} */
export function recallRun() {
  try {
    return JSON.parse(sessionStorage.getItem(WAITED) ?? "{}");
  } catch {
    return {};
  }
}

/** Call `heard` when another tab has changed a chat. @param {(id: string) => void} heard */
export function onOtherTabs(heard) {
  addEventListener("storage", ({ key }) => {
    if (key === null || key.startsWith(KEY)) heard(key?.slice(KEY.length) ?? "");
  });
}

/** @param {string} value @returns {Chat | undefined} */
function parse(value) {
  try {
    const chat = JSON.parse(value);
    const sound =
      typeof chat.id === "string" &&
      typeof chat.title === "string" &&
      typeof chat.at === "number" &&
      Array.isArray(chat.messages);
    return sound &&
      chat.messages.every((/** @type {any} */ message) => Array.isArray(message?.parts))
      ? chat
      : undefined;
  } catch {
    return undefined;
  }
}
