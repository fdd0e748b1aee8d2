// Keys, and the help that lists them.

const keys = (() => {
  const known = [];
  const typing = (target) =>
    target instanceof HTMLElement && Boolean(target.closest("input, textarea, select, dialog"));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (typing(event.target)) return;
    const found = known.find((entry) => entry.key === event.key && entry.within(event.target));
    if (!found) return;
    event.preventDefault();
    found.action(event);
  });

  return {
    known,
    /** Has a key do something; `within` may say for which targets it holds. */
    add(key, meaning, action, within = () => true) {
      known.push({ key, meaning, action, within });
    },
  };
})();

function showKeys() {
  const dialog = document.getElementById("keys");
  const list = dialog.querySelector("dl");
  list.replaceChildren(...keys.known.map((entry) =>
    make("div", {}, make("dt", {}, make("kbd", {}, entry.key)), make("dd", {}, entry.meaning))));
  dialog.showModal();
}

begin(() => {
  keys.add("?", "Show the keys", showKeys);
  document.getElementById("close-keys")?.addEventListener("click", (event) => {
    event.target.closest("dialog").close();
  });
  document.getElementById("show-keys")?.addEventListener("click", showKeys);
});
