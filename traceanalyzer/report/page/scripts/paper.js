// On paper nothing can be opened: what is folded is opened for it, and folded again after.

begin(() => {
  let closed = [];
  window.addEventListener("beforeprint", () => {
    const folded = [...document.querySelectorAll("details:not([open])")];
    closed = [...closed, ...folded];
    for (const details of folded) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    closed = [];
  });
});
