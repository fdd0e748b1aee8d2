// Before anything is drawn: the ground that the reader chose.
try {
  const chosen = localStorage.getItem("traceanalyzer.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser may keep no storage for files: the system's choice holds.
}
document.documentElement.classList.add("scripted");
