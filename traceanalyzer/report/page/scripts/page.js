// Helpers that every part of the page's script uses.

const parts = [];

/** Has a part begin once all are known. */
function begin(part) {
  parts.push(part);
}

/** Returns an element; its children are elements and texts, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children);
  return element;
}

/** Returns a button that looks like the page's other tools. */
function makeButton(label, action, attributes = {}) {
  const button = make("button", { type: "button", class: "tool", ...attributes }, label);
  button.addEventListener("click", action);
  return button;
}

/** What the reader's browser remembers for files, where it does. */
const memory = {
  get(key) {
    try {
      return localStorage.getItem(`traceanalyzer.${key}`);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      if (value === null) localStorage.removeItem(`traceanalyzer.${key}`);
      else localStorage.setItem(`traceanalyzer.${key}`, value);
    } catch {
      // Nothing is remembered then.
    }
  },
};

/** Offers a text as a file to keep. */
function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Puts a text on the clipboard; true where that worked. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { class: "said", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

/** Tells those who cannot see it what has changed. */
function announce(text) {
  const line = document.getElementById("announcements");
  if (line) line.textContent = text;
}
