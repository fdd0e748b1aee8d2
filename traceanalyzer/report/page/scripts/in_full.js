// Exact figures, whole names and reasons beside what is shown short: the style sheet shows them, by
// the box at the top; here it is kept in the address, and given a key.

begin(() => {
  const box = document.getElementById("in-full");
  if (!box) return;
  const take = (choice) => { box.checked = choice === "full"; };
  const tell = () => {
    state.set("figures", box.checked ? "full" : null);
    announce(box.checked ? "Exact figures, whole names and reasons are shown"
      : "Figures and names are shown short");
  };
  box.addEventListener("change", tell);
  state.watch("figures", take);
  take(state.get("figures"));
  keys.add("x", "Exact figures, whole names and reasons, or short ones", () => {
    box.checked = !box.checked;
    tell();
  });
});
