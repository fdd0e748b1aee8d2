// A reader's notes on changes. The browser keeps them, by run and change; copied texts hold them.

import { later, make, memory } from "./dom";

const nameOf = (id: string): string => `note.${document.title}.${id}`;

/** Returns the note on a change, as Markdown after its text. */
export function noteOn(id: string): string {
  const note = id ? memory.get(nameOf(id)) : null;
  return note ? `\n> ${note.replaceAll("\n", "\n> ")}\n` : "";
}

/** Returns all notes of the reader, as Markdown after the whole page. */
export function allNotes(): string {
  const cards = [...document.querySelectorAll<HTMLElement>("details.card")];
  const noted = cards.filter((card) => noteOn(card.id));
  const title = (card: HTMLElement): string =>
    (card.querySelector("summary h3, summary .title") ?? card.querySelector("summary"))!.textContent!.trim();
  return noted.map((card) => `\n**${title(card)}**\n${noteOn(card.id)}`).join("");
}

const DAYS = 90; // until an accepted finding counts again
const DAY = 24 * 60 * 60 * 1000; // milliseconds

/** Returns budget entries that accept findings for a while, with the reader's note as the reason. */
export function accepted(entries: string, id: string): string {
  const until = new Date(Date.now() + DAYS * DAY).toISOString().slice(0, 10);
  const note = memory.get(nameOf(id));
  const dated = entries.replaceAll(/^expires = .*$/gm, `expires = ${until}`);
  return note ? dated.replaceAll(/^reason = .*$/gm, () => `reason = ${JSON.stringify(note)}`) : dated;
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
