// Scrolls to a finding and returns its rectangle; null if it is gone or not visible.
(id) => {
  const { all, hostOf, visible } = window.__detokGlyphs;
  const f = all.find((one) => one.id === id),
    e = f && f.place === "text" ? hostOf(f.node) : f && f.node;
  if (!e || !visible(f)) return null;
  e.scrollIntoView({ block: "center" });
  const { x, y, width, height } = e.getBoundingClientRect();
  return { x, y, width, height };
};
