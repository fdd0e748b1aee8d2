// Buttons that put something on the clipboard: code to change, and the link to a finding.

/** Returns a button that copies what a function gives, and says that it did. */
function makeCopyButton(label, what, text) {
  const button = makeButton(label, async () => {
    const copied = await copyText(text());
    button.textContent = copied ? "Copied" : "Not copied";
    announce(copied ? `${what} copied.` : `${what} could not be copied.`);
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  return button;
}

begin(() => {
  for (const block of document.querySelectorAll("main pre")) {
    const button = makeCopyButton("Copy", "The code was", () => block.textContent.trimEnd());
    button.setAttribute("aria-label", "Copy this code");
    const box = make("div", { class: "code" });
    block.replaceWith(box);
    box.append(block, button);
  }
  for (const link of document.querySelectorAll("article.finding .permalink")) {
    const address = () => `${location.href.split("#")[0]}${link.getAttribute("href")}`;
    link.closest("article").querySelector(".card-tools")
      ?.append(makeCopyButton("Copy link", "The link was", address));
  }
});
