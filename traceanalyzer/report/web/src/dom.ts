// Elements, texts and what the browser remembers. Texts become text nodes, never markup.

import { visible } from "./format";

type Attributes = Record<string, string | number | boolean | null | undefined>;
type Child = Node | string;

/** Returns an element; its texts pass through `visible`. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  put(element, attributes);
  element.append(...children.map(shown));
  return element;
}

/** Returns an SVG element. */
export function shape(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  put(element, attributes);
  element.append(...children.map(shown));
  return element;
}

const shown = (child: Child): Child => (typeof child === "string" ? visible(child) : child);

function put(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (typeof value === "boolean" && !name.startsWith("aria-")) element.toggleAttribute(name, value);
    else {
      element.setAttribute(name, typeof value === "string" ? visible(value) : String(value));
    }
  }
}

/** Returns a button. */
export function button(
  label: string,
  action: () => void,
  attributes: Attributes = {},
): HTMLButtonElement {
  const made = make("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", action);
  return made;
}

/** What the browser remembers for files, if it does. */
export const memory = {
  get(key: string): string | null {
    try {
      return localStorage.getItem(`traceanalyzer.${key}`);
    } catch {
      return null;
    }
  },
  set(key: string, value: string | null): void {
    try {
      if (value === null) localStorage.removeItem(`traceanalyzer.${key}`);
      else localStorage.setItem(`traceanalyzer.${key}`, value);
    } catch {
      // Nothing is remembered then.
    }
  },
};

/** Tells screen readers what has changed. */
export function announce(text: string): void {
  const line = document.getElementById("announcement");
  if (line) line.textContent = visible(text);
}

/** Offers a text as a file. */
export function download(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Puts a text on the clipboard, and says on the button whether that worked. */
export async function copy(text: string, from: HTMLElement): Promise<void> {
  const label = (from.dataset.label ??= from.textContent ?? "");
  const copied = await copyText(text);
  from.textContent = copied ? "Copied" : "Not copied";
  announce(copied ? "Copied" : "The browser does not allow copying");
  setTimeout(() => {
    from.textContent = label;
  }, 1500);
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

/** Delays an action until it is asked for no more. */
export function later(ms: number, action: () => void): () => void {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(action, ms);
  };
}

/** Returns the JSON that the page holds under an id. */
export function embedded<T>(id: string): T | null {
  const text = document.getElementById(id)?.textContent;
  return text ? (JSON.parse(text) as T) : null;
}

/** Returns the colour of a name of the style sheet, as a canvas needs it. */
export function colours(names: readonly string[], within: Element = document.body): string[] {
  const probe = make("span", { hidden: true });
  within.append(probe);
  const found = names.map((name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return found;
}
