// The pictures of copies: which measure sets the widths, and what is highlighted with the element under the pointer.

const COPY_MEASURES = { bytes: "Bytes", time: "Copy time", count: "Copies" };

/** Shows the pictures of one measure, and the text below them. */
function showCopiesBy(measure) {
  const all = [...document.querySelectorAll("#copies [data-measure]")];
  // A picture that lacks the measure stays as it is.
  const groups = new Set(all.map((element) => element.parentElement));
  for (const group of groups) {
    const own = all.filter((element) => element.parentElement === group);
    if (!own.some((element) => element.dataset.measure === measure)) continue;
    for (const element of own) element.toggleAttribute("hidden", element.dataset.measure !== measure);
  }
}

begin(() => {
  const bar = document.getElementById("copies-by");
  if (!bar) return;
  const known = [...new Set([...document.querySelectorAll("#copies svg[data-measure]")]
    .map((picture) => picture.dataset.measure))];
  if (known.length < 2) return;
  const buttons = new Map(known.map((measure) => [measure, makeButton(
    COPY_MEASURES[measure], () => choose(measure, true), { "aria-pressed": "false" })]));
  const choose = (measure, kept) => {
    const chosen = buttons.has(measure) ? measure : known[0];
    showCopiesBy(chosen);
    for (const [own, button] of buttons) button.setAttribute("aria-pressed", String(own === chosen));
    if (kept) state.set("copies.by", chosen === known[0] ? null : chosen);
  };
  bar.append(make("span", {}, "Width by"), ...buttons.values());
  choose(state.get("copies.by"), false);
  state.watch("copies.by", (measure) => choose(measure, false));
});

begin(() => {
  for (const picture of document.querySelectorAll("svg.sankey")) {
    const light = (event) => {
      const on = event.target.closest?.("[data-key]");
      const lit = new Set(on?.dataset.lit?.split(" ").filter(Boolean));
      picture.classList.toggle("dimmed", lit.size > 0);
      if (!on || !lit.size) return;
      lit.add(on.dataset.key);
      for (const part of picture.querySelectorAll("[data-key]")) {
        part.classList.toggle("lit", lit.has(part.dataset.key));
      }
    };
    picture.addEventListener("pointerover", light);
    picture.addEventListener("focusin", light);
    picture.addEventListener("pointerleave", () => picture.classList.remove("dimmed"));
    picture.addEventListener("focusout", () => picture.classList.remove("dimmed"));
  }
});
