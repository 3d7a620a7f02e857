/**
 * Tabs: those of the details below the panes, and on a narrow window one for each pane. The pattern
 * is that of the ARIA Authoring Practices: one tab is in the tab order, the arrow keys choose
 * another.
 */

const details = [...document.querySelectorAll(".details [role=tab]")].filter(
  (tab) => tab instanceof HTMLElement,
);
const stage = /** @type {HTMLElement} */ (document.getElementById("panes"));
/** @type {((id: string) => void)[]} */
const listeners = [];

/** @param {(id: string) => void} listener  Called with the id of the panel that is shown now. */
export function onTab(listener) {
  listeners.push(listener);
}

/** @param {HTMLElement[]} tabs @param {(tab: HTMLElement) => void} choose */
function setUp(tabs, choose) {
  /** @param {HTMLElement} chosen */
  const show = (chosen) => {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
    }
    choose(chosen);
  };
  tabs.forEach((tab, n) => {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const next = step && tabs[(n + step + tabs.length) % tabs.length];
      if (!next) return;
      event.preventDefault();
      next.focus();
      show(next);
    });
  });
}

setUp(details, (chosen) => {
  for (const tab of details) {
    const panel = document.getElementById(tab.getAttribute("aria-controls") ?? "");
    if (panel) panel.hidden = tab !== chosen;
  }
  for (const listener of listeners) listener(chosen.getAttribute("aria-controls") ?? "");
});

/** The row of tabs over the panes; the style sheet shows it on a narrow window only. */
const panes = [...stage.querySelectorAll("[data-tab]")].filter((one) => one instanceof HTMLElement);
const row = document.createElement("div");
row.className = "tabs pane-tabs";
row.setAttribute("role", "tablist");
row.setAttribute("aria-label", "Decoders");
const tabs = panes.map((pane, n) => {
  const tab = document.createElement("button");
  tab.type = "button";
  tab.setAttribute("role", "tab");
  tab.textContent = pane.dataset.tab ?? "";
  tab.setAttribute("aria-selected", String(n === 0));
  tab.tabIndex = n === 0 ? 0 : -1;
  pane.classList.toggle("chosen", n === 0);
  return tab;
});
setUp(tabs, (chosen) => {
  panes.forEach((pane, n) => pane.classList.toggle("chosen", tabs[n] === chosen));
});
row.append(...tabs);
stage.before(row);
