// Brings a finding that is still there before the camera and returns its rectangle; null where nothing of it can be seen.
(id) => {
  const { all, hostOf, visible } = window.__detokGlyphs;
  const f = all.find((one) => one.id === id), e = f && f.place === "text" ? hostOf(f.node) : f && f.node;
  if (!e || !visible(f)) return null;
  e.scrollIntoView({ block: "center" });
  const { x, y, width, height } = e.getBoundingClientRect();
  return { x, y, width, height };
}
