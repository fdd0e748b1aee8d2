// What a reader chose is in the address, so that it can be shared and gone back to:
// `#change-1a2b&ops.q=type:Cast&op=3f2e` is an anchor, then choices, each `name=value`.

const REST_MS = 250; // browsers refuse changes of the address that come too often

type Watcher = (value: string | null) => void;
type Guide = (rest: string, isNew: boolean) => void;

const watchers = new Map<string, Watcher[]>();
const guides = new Map<string, Guide>();
const revealers: ((target: Element) => void)[] = [];
let anchor = "";
let choices = new Map<string, string>();
let due = 0;

function read(): void {
  const entries = location.hash.slice(1).split("&");
  anchor = entries[0].includes("=") ? "" : decoded(entries.shift()!);
  choices = new Map();
  for (const entry of entries) {
    const at = entry.indexOf("=");
    if (at > 0) choices.set(decoded(entry.slice(0, at)), decoded(entry.slice(at + 1)));
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns a text as part of an address, which cannot hold half a surrogate pair. */
export const encoded = (text: string): string =>
  encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd"));

function address(): string {
  const pairs = [...choices].map(([name, value]) => `${encoded(name)}=${encoded(value)}`);
  const hash = [encoded(anchor), ...pairs].filter(Boolean).join("&");
  return hash ? `#${hash}` : location.pathname + location.search;
}

function write(isNew: boolean): void {
  clearTimeout(due);
  due = 0;
  try {
    if (isNew) history.pushState(null, "", address());
    else history.replaceState(null, "", address());
  } catch {
    // Refused because it came too often: the address stays behind.
  }
}

function put(name: string, value: string | null): void {
  if (value) choices.set(name, value);
  else choices.delete(name);
}

function tell(name: string): void {
  for (const watcher of watchers.get(name) ?? []) watcher(choices.get(name) ?? null);
}

export const state = {
  get: (name: string): string | null => choices.get(name) ?? null,

  /** Keeps a choice, and tells those who watch it; a new place in the history if asked for. */
  set(name: string, value: string | null, isNew = false): void {
    if ((choices.get(name) ?? null) === (value || null)) return;
    if (due) write(false);
    put(name, value);
    write(isNew);
    tell(name);
  },

  /** Keeps a choice that changes often, once it rests; tells nobody. */
  setSoon(name: string, value: string | null): void {
    put(name, value);
    clearTimeout(due);
    due = window.setTimeout(() => write(false), REST_MS);
  },

  watch(name: string, watcher: Watcher): void {
    watchers.set(name, [...(watchers.get(name) ?? []), watcher]);
  },

  /** Has a function lead to anchors that begin so; they stand for choices, not for elements. */
  guide: (prefix: string, guide: Guide): void => void guides.set(prefix, guide),

  /** Has a function make an element visible, as a tab must. */
  onReveal: (revealer: (target: Element) => void): void => void revealers.push(revealer),

  /** Returns the address of a target, as a link has it. */
  link: (target: string): string => `${location.href.split("#")[0]}#${encoded(target)}`,

  /** Leads to a target as a link does. */
  follow(target: string): void {
    if (due) write(false);
    if (guided(target, true)) return;
    if (anchor !== target) {
      anchor = target;
      write(true);
    }
    show(target);
  },

  /** Reads the address; watchers begin with what it holds. */
  read,

  /** Follows links and the history from now on, and goes to the anchor. */
  begin(): void {
    document.addEventListener("click", (event) => {
      const link = (event.target as Element).closest?.('a[href^="#"]');
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
      event.preventDefault();
      state.follow(decoded(link.getAttribute("href")!.slice(1)));
    });
    const arrive = (): void => {
      const before = choices;
      read();
      for (const name of new Set([...before.keys(), ...choices.keys()])) {
        if (before.get(name) !== choices.get(name)) tell(name);
      }
      open();
    };
    window.addEventListener("popstate", arrive);
    open();
  },
};

// Goes to the anchor of an address.
function open(): void {
  const target = anchor;
  if (!target) return;
  if ([...guides.keys()].some((prefix) => target.startsWith(prefix))) anchor = "";
  if (!guided(target, false)) show(target);
}

function guided(target: string, isNew: boolean): boolean {
  for (const [prefix, guide] of guides) {
    if (!target.startsWith(prefix)) continue;
    guide(target.slice(prefix.length), isNew);
    return true;
  }
  return false;
}

function show(target: string): void {
  const element = document.getElementById(target);
  if (!element) return;
  reveal(element);
  element.scrollIntoView();
  const focused = document.getElementById(`tab-${target}`)
    ?? element.querySelector<HTMLElement>("summary, h2, h3") ?? element;
  if (!focused.matches("summary, [role=tab]")) focused.tabIndex = -1;
  focused.focus({ preventScroll: true });
}

/** Opens all that an element is folded in. */
export function reveal(element: Element): void {
  for (const revealer of revealers) revealer(element);
  for (let e: Element | null = element; e; e = e.parentElement) {
    if (e instanceof HTMLDetailsElement) e.open = true;
  }
}

