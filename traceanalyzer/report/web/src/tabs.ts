// Tabs: one of several views at a time. Without scripts they follow each other.

import { make } from "./dom";
import { watch } from "./figures";
import { key } from "./keys";
import { state } from "./state";

export function beginTabs(): void {
  for (const [place, box] of document.querySelectorAll<HTMLElement>(".tabs").entries()) {
    begin(box, place ? `tab${place + 1}` : "tab");
  }
}

function begin(box: HTMLElement, name: string): void {
  const panels = [...box.querySelectorAll<HTMLElement>(":scope > .tab")];
  if (!panels.length) return;
  const list = make("div", { role: "tablist", "aria-label": "Views" });
  const buttons = panels.map((panel) => {
    const made = make("button", {
      type: "button", role: "tab", id: `tab-${panel.id}`, "aria-controls": panel.id,
    }, panel.dataset.title!);
    made.addEventListener("click", () => choose(panel.id));
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", made.id);
    panel.querySelector("h3")?.remove();
    return made;
  });
  list.append(...buttons);
  box.prepend(list);
  box.classList.add("live");

  const choose = (id: string): void => state.set(name, id === panels[0].id ? null : id);
  const show = (id: string | null): void => {
    const shown = panels.find((panel) => panel.id === id) ?? panels[0];
    panels.forEach((panel, at) => {
      const isShown = panel === shown;
      panel.hidden = !isShown;
      buttons[at].setAttribute("aria-selected", String(isShown));
      buttons[at].tabIndex = isShown ? 0 : -1;
    });
    watch(shown);
  };
  list.addEventListener("keydown", (event) => {
    const here = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (here < 0 || !by) return;
    event.preventDefault();
    const next = (here + by + buttons.length) % buttons.length;
    choose(panels[next].id);
    buttons[next].focus();
  });
  state.watch(name, show);
  state.onReveal((target) => {
    const panel = panels.find((one) => one.contains(target));
    if (panel?.hidden) choose(panel.id);
  });
  show(state.get(name));
  if (name === "tab") {
    const digits = panels.slice(0, 9).map((_, at) => String(at + 1));
    key(digits, "Views of the run", (event) => {
      state.follow(panels[Number(event.key) - 1].id);
      buttons[Number(event.key) - 1].focus({ preventScroll: true });
    });
  }
}
