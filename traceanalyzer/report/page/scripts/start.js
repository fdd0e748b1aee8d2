// Everything is known: begin. A part that fails leaves the page as it was without scripts.

for (const part of parts) {
  try {
    part();
  } catch (error) {
    console.error(error);
  }
}
state.go();
