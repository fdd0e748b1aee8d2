// Everything is known: begin. A part that fails leaves the page as it was without scripts.

for (const part of parts) {
  try {
    part();
  } catch (error) {
    console.error(error);
  }
}
state.go();

// For tests, and for readers who look at the data from their browser's console.
window.traceanalyzer = Object.freeze({
  countText, cutName, durationParts, packedTable, quantity, shareParts, sizeParts, visible,
});
