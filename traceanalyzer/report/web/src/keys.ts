// Keys, and the help that lists them.

import { button, make, memory } from "./dom";

interface Key {
  keys: string[];
  meaning: string;
  action: (event: KeyboardEvent) => void;
}

const known: Key[] = [];
const NAMES: Record<string, string> = { Escape: "Esc" };
let isOn = memory.get("keys") !== "off";

/** Has keys do something on the page; without an action they are only listed. */
export function key(keys: string[], meaning: string, action?: (event: KeyboardEvent) => void): void {
  known.push({ keys, meaning, action: action ?? (() => {}) });
}

/** Listens to keys. Those who dictate must be able to switch single keys off (WCAG 2.1.4). */
export function listen(): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (!isOn && event.key.length === 1) return;
    if ((event.target as Element).closest?.("input, textarea, select, dialog")) return;
    const found = known.find((entry) => entry.keys.includes(event.key));
    if (!found) return;
    if (event.key.length === 1) event.preventDefault();
    found.action(event);
  });
}

/** Shows which keys there are. */
export function showKeys(): void {
  const choice = make("input", { type: "checkbox", id: "keys-on" });
  choice.checked = isOn;
  choice.addEventListener("change", () => {
    isOn = choice.checked;
    memory.set("keys", isOn ? null : "off");
  });
  const rows = known.map(({ keys, meaning }) => make("div", {},
    make("dt", {}, ...keys.flatMap((name) => [make("kbd", {}, NAMES[name] ?? name), " "])),
    make("dd", {}, meaning)));
  const dialog = make("dialog", { id: "keys", "aria-labelledby": "keys-title" },
    make("h2", { id: "keys-title" }, "Shortcuts"),
    make("dl", {}, ...rows),
    make("p", {}, make("label", {}, choice, " Single characters are shortcuts")),
    button("Close", () => dialog.close()));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
