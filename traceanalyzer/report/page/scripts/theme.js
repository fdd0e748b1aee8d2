// Dark or light: as the system has it, until the reader chooses.

begin(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => {
    if (button) button.textContent = isDark() ? "Light page" : "Dark page";
    document.dispatchEvent(new Event("themechange"));
  };
  const turn = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    memory.set("theme", root.dataset.theme);
    tell();
  };
  button?.addEventListener("click", turn);
  system.addEventListener("change", tell);
  keys.add("d", "Dark or light page", turn);
  tell();
});
