// Keys, and the help that lists them.

const KEY_NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };

const keys = (() => {
  const known = [];
  // Who speaks to the machine, or types by accident, must be able to switch single keys off
  // (WCAG 2.1.4).
  let isOn = memory.get("keys") !== "off";
  const typing = (target) =>
    target instanceof HTMLElement && Boolean(target.closest("input, textarea, select, dialog"));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (!isOn && event.key.length === 1) return;
    if (typing(event.target)) return;
    const found = known.find((entry) => entry.key === event.key && entry.within(event.target));
    if (!found) return;
    event.preventDefault();
    found.action(event);
  });

  return {
    known,
    isOn: () => isOn,
    /** Switches the keys that are single characters on or off, and remembers it. */
    switchTo(on) {
      isOn = on;
      memory.set("keys", on ? null : "off");
    },
    /** Has a key do something; `within` may say for which targets it holds. */
    add(key, meaning, action, within = () => true) {
      known.push({ key, meaning, action, within });
    },
  };
})();

function showKeys() {
  const dialog = document.getElementById("keys");
  const list = dialog.querySelector("dl");
  const byMeaning = new Map();
  for (const { key, meaning } of keys.known) {
    byMeaning.set(meaning, [...byMeaning.get(meaning) ?? [], KEY_NAMES[key] ?? key]);
  }
  list.replaceChildren(...[...byMeaning].map(([meaning, names]) =>
    make("div", {},
      make("dt", {}, ...names.flatMap((name) => [make("kbd", {}, name), " "])),
      make("dd", {}, meaning))));
  dialog.showModal();
}

begin(() => {
  keys.add("?", "Show the keys", showKeys);
  const choice = document.getElementById("keys-on");
  if (choice) {
    choice.checked = keys.isOn();
    choice.addEventListener("change", () => keys.switchTo(choice.checked));
  }
  document.getElementById("close-keys")?.addEventListener("click", (event) => {
    event.target.closest("dialog").close();
  });
  document.getElementById("show-keys")?.addEventListener("click", showKeys);
});
