// Runs before the first paint: the theme that the reader chose.
try {
  const chosen = localStorage.getItem("traceanalyzer.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Browsers may keep no storage for files.
}
document.documentElement.classList.add("scripted-page");
