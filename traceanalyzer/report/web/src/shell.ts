// What surrounds the blocks: menu, theme, exact figures, copying, going through changes, terms.

import { announce, button, copy, embedded, make, memory } from "./dom";
import { drawAll } from "./figures";
import { key, showKeys } from "./keys";
import { accepted, allNotes, noteOn } from "./notes";
import { reveal, state } from "./state";

const root = document.documentElement;

export function beginShell(): void {
  beginMenu();
  beginCopying();
  beginTerms();
  beginPrinting();
  key(["j"], "Next change", () => walk(1));
  key(["k"], "Previous change", () => walk(-1));
  key(["e"], "Exact figures", toggleExact);
  key(["t"], "Dark or light", toggleTheme);
  key(["?"], "Shortcuts", showKeys);
}

// --- menu, theme, exact figures

function beginMenu(): void {
  const menu = make("div", { id: "menu", popover: "auto" },
    button("Dark or light", toggleTheme),
    button("Exact figures", toggleExact, { id: "exact", "aria-pressed": "false" }),
    button("Print summary", () => void printPage(false)),
    button("Print everything", () => void printPage(true)),
    button("Shortcuts", showKeys));
  menu.addEventListener("click", (event) => {
    if ((event.target as Element).closest("button")) menu.hidePopover();
  });
  document.getElementById("menu-button")?.after(menu);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tellTheme);
  state.watch("figures", showExact);
  if (state.get("figures")) showExact(state.get("figures"));
}

function toggleTheme(): void {
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  memory.set("theme", root.dataset.theme);
  tellTheme();
}

const tellTheme = (): void => void document.dispatchEvent(new Event("themechange"));

function toggleExact(): void {
  const isExact = state.get("figures") !== "exact";
  state.set("figures", isExact ? "exact" : null);
  announce(isExact ? "Figures are exact" : "Figures are rounded");
}

function showExact(choice: string | null): void {
  const isExact = choice === "exact";
  document.getElementById("exact")?.setAttribute("aria-pressed", String(isExact));
  for (const figure of document.querySelectorAll<HTMLElement>("data[title]")) {
    const other = figure.title;
    if (isExact === figure.classList.contains("exact")) continue;
    figure.title = figure.textContent ?? "";
    figure.textContent = other;
    figure.classList.toggle("exact", isExact);
  }
}

// --- copying

function beginCopying(): void {
  const texts = embedded<Record<string, string>>("markdown") ?? {};
  for (const from of document.querySelectorAll<HTMLElement>("[data-copy]")) {
    if (texts[from.dataset.copy!] === undefined) from.remove();
  }
  document.addEventListener("click", (event) => {
    const from = (event.target as Element).closest?.<HTMLElement>("button");
    if (!from) return;
    const key = from.dataset.copy;
    if (key?.startsWith("accept-")) void copy(accepted(texts[key], key.slice("accept-".length)), from);
    else if (key !== undefined) void copy(texts[key] + (key ? noteOn(key) : allNotes()), from);
    if (from.dataset.link !== undefined) void copy(state.link(from.dataset.link), from);
    if (from.matches(".copy-diff")) void copy(diffOf(from), from);
  });
}

// A diff as `patch` takes it: no space between the mark and the line.
function diffOf(from: HTMLElement): string {
  const lines = from.closest("figure")!.querySelectorAll("del, ins");
  const marked = [...lines].map((line) => {
    const mark = line.localName === "del" ? "-" : "+";
    return `${mark}${line.textContent!.slice(2).replace(/\n$/, "")}\n`;
  });
  return from.dataset.head + marked.join("");
}

// --- changes

function walk(by: number): void {
  const cards = [...document.querySelectorAll<HTMLDetailsElement>("details.card")];
  if (!cards.length) return;
  const here = cards.findIndex((card) => card.contains(document.activeElement));
  const next = Math.min(cards.length - 1, Math.max(0, here < 0 ? (by > 0 ? 0 : cards.length - 1) : here + by));
  state.follow(cards[next].id);
}

// --- terms: their entry of the glossary beside them

function beginTerms(): void {
  const bubble = make("div", { id: "term", popover: "auto" });
  document.body.append(bubble);
  state.guide("term-", (name, isNew) => {
    const entry = document.getElementById(`term-${name}`);
    const from = document.activeElement;
    if (!entry) return;
    if (!isNew || !from?.matches(".term") || !bubble.showPopover) {
      reveal(entry);
      entry.scrollIntoView({ block: "center" });
      entry.tabIndex = -1;
      entry.focus({ preventScroll: true });
      return;
    }
    const copied = [...entry.querySelectorAll("dt, dd")].map((part) =>
      make(part.localName === "dt" ? "b" : "p", {}, ...[...part.childNodes].map((n) => n.cloneNode(true))));
    bubble.replaceChildren(...copied);
    bubble.showPopover();
    const at = from.getBoundingClientRect();
    bubble.style.left = `${Math.max(8, Math.min(at.left, innerWidth - bubble.offsetWidth - 8))}px`;
    bubble.style.top = `${Math.min(at.bottom + 6, innerHeight - bubble.offsetHeight - 8)}px`;
  });
}

// --- print

let closed: HTMLDetailsElement[] = [];
let hidden: HTMLElement[] = [];

function beginPrinting(): void {
  window.addEventListener("beforeprint", () => {
    if (!root.classList.contains("print-all")) return;
    closed = [...document.querySelectorAll<HTMLDetailsElement>("main details:not([open])")];
    for (const fold of closed) fold.open = true;
    hidden = [...document.querySelectorAll<HTMLElement>("main .tab[hidden]")];
    for (const tab of hidden) tab.hidden = false;
  });
  window.addEventListener("afterprint", () => {
    root.classList.remove("print-all");
    for (const fold of closed) fold.open = false;
    for (const tab of hidden) tab.hidden = true;
    closed = hidden = [];
  });
}

async function printPage(isAll: boolean): Promise<void> {
  root.classList.toggle("print-all", isAll);
  if (isAll) await drawAll();
  window.print();
}
