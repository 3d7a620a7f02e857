// Notes which timers of the page are due soon: the page may still change, though it is quiet now.
// `__detokTimers()` returns the milliseconds until the last of them; 0 if there is none. Intervals
// do not count, because they never end.
(() => {
  "use strict";
  const SOON = 6000, // milliseconds; a later timer is not waited for
    clock = () => performance.now(),
    due = new Map(); // the numbers of timers → when they are due
  if (window.__detokTimers) return;
  const { setTimeout: set, clearTimeout: clear } = window;
  const prune = () => due.forEach((when, id) => when < clock() && due.delete(id));
  window.setTimeout = function setTimeout(act, delay = 0) {
    const id = set.apply(this, arguments);
    if (delay > 0 && delay <= SOON) due.set(id, clock() + Number(delay));
    if (due.size > 1000) prune();
    return id;
  };
  window.clearTimeout = function clearTimeout(id) {
    due.delete(id);
    return clear.apply(this, arguments);
  };
  const last = () => {
    prune();
    return due.size && Math.max(...due.values()) - clock();
  };
  Object.defineProperty(window, "__detokTimers", { value: last, configurable: true });
})();
