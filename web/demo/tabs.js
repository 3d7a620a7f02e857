/**
 * Tabs: those of the details below the panes. The pattern is that of the ARIA Authoring Practices:
 * one tab is in the tab order, the arrow keys choose another. Also the buttons that show further
 * panes.
 */

import { address, button, element, make, makeButton } from "./dom.js";

const tabs = ["tab-tokens", "tab-faults", "tab-times"].map(button);
/** @param {HTMLElement} tab */
const panelOf = (tab) => element(tab.getAttribute("aria-controls") ?? "", HTMLElement);
const stage = element("panes", HTMLElement);
/** @type {(id: string) => void} */
let tell = () => {};

/** @param {(id: string) => void} listener  Called with the id of the panel that is shown now. */
export function onTab(listener) {
  tell = listener;
}

/** @param {HTMLElement} chosen */
function choose(chosen) {
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
    panelOf(tab).hidden = tab !== chosen;
  }
  tell(panelOf(chosen).id);
}

tabs.forEach((tab, n) => {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = step && tabs[(n + step + tabs.length) % tabs.length];
    if (!next) return;
    event.preventDefault();
    next.focus();
    choose(next);
  });
});

/** A button for each pane but the first two; `rule` in the address shows the last one. */
const its = { className: "more-panes wrap", role: "group", ariaLabel: "More decoders" };
const row = make("div", its, "Compare with");
for (const pane of stage.querySelectorAll("[data-more]")) {
  if (!(pane instanceof HTMLElement)) continue;
  const choice = makeButton(pane.dataset.more ?? "", () => show(pane.hidden));
  /** @param {boolean} shown */
  const show = (shown) => {
    pane.hidden = !shown;
    choice.ariaPressed = String(shown);
  };
  show(pane.classList.contains("wild") && address.has("rule"));
  row.append(choice);
}
stage.after(row);
