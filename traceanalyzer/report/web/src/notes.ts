// A reader's notes on changes. The browser keeps them, by run and change; copied texts hold them.

import { later, make, memory } from "./dom";

const nameOf = (id: string): string => `note.${document.title}.${id}`;

/** Returns the note on a change, as Markdown after its text. */
export function noteOn(id: string): string {
  const note = id ? memory.get(nameOf(id)) : null;
  return note ? `\n> ${note.replaceAll("\n", "\n> ")}\n` : "";
}

export function beginNotes(): void {
  for (const card of document.querySelectorAll<HTMLElement>("details.card")) {
    const kept = memory.get(nameOf(card.id)) ?? "";
    const text = make("textarea", { rows: 3, "aria-label": "Your note on this change" });
    text.value = kept;
    const mark = make("span", { class: "noted quiet", title: "has a note", hidden: !kept }, "✎ note");
    const keep = later(200, () => {
      memory.set(nameOf(card.id), text.value.trim() || null);
      mark.hidden = !text.value.trim();
    });
    text.addEventListener("input", keep);
    const fold = make("details", { class: "fold note-fold", open: Boolean(kept) },
      make("summary", {}, "Your note (kept in this browser)"), text);
    card.querySelector(":scope > .inside")?.append(fold);
    card.querySelector("summary")?.append(mark);
  }
}
