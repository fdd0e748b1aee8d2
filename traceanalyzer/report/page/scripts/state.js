// The reader's choices are kept in the address, so that it can be shared:
// `#finding-1a2b3c4d&ops.q=type:Cast` is an anchor and then the choices, each `name=value`.
//
// Each place in the browser's history has its own address, and a number (`place`) under which
// the rest is stored: what was open, how far boxes were scrolled, and what had the focus. So going
// back restores everything as it was.

const state = (() => {
  const RESTS_MS = 250; // browsers take only so many changes of the address
  const SCROLLED = ".scroll, .ops-grid, .tl-box";
  const listeners = new Map();
  const guides = new Map();
  const returns = [];
  let anchor = "";
  let choices = new Map();
  let due = 0; // the timer of a change that the address has yet to follow

  function read() {
    const [first, ...rest] = location.hash.slice(1).split("&");
    const entries = first.includes("=") ? [first, ...rest] : rest;
    anchor = first.includes("=") ? "" : first;
    choices = new Map();
    for (const entry of entries) {
      const [name, ...value] = entry.split("=");
      try {
        choices.set(decodeURIComponent(name), decodeURIComponent(value.join("=")));
      } catch {
        // Not written by this page: passed over.
      }
    }
  }

  // Half a character cannot be written in an address.
  const written = (text) => encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd"));

  function write() {
    clearTimeout(due);
    due = 0;
    const pairs = [...choices].map(([name, value]) =>
      `${written(name)}=${written(value)}`);
    const hash = [anchor, ...pairs].filter(Boolean).join("&");
    remember(hash ? `#${hash}` : location.pathname + location.search);
  }

  function remember(address) {
    try {
      history.replaceState({ place: here }, "", address);
    } catch {
      // Browsers refuse what comes too often, or is too long: the address stays behind.
    }
  }

  function put(name, value) {
    if (value === null || value === "") choices.delete(name);
    else choices.set(name, value);
  }

  /** Leads to the anchor, opening what it is folded in. */
  function go() {
    for (const [prefix, lead] of guides) if (anchor.startsWith(prefix) && lead(anchor)) return;
    const target = anchor && document.getElementById(decodeAnchor());
    if (!target) return;
    for (let e = target; e; e = e.parentElement) if (e.localName === "details") e.open = true;
    target.scrollIntoView();
    if (!location.hash.includes("&")) return;
    // The browser itself leads the keyboard to an anchor that stands alone, and to no other.
    const heading = target.querySelector("h2, h3") ?? target;
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }

  function decodeAnchor() {
    try {
      return document.getElementById(anchor) ? anchor : decodeURIComponent(anchor);
    } catch {
      return anchor;
    }
  }

  // `asked` are the choices that a link names which was followed: none where they are restored.
  function tellAll(asked = new Map()) {
    for (const [name, changed] of listeners) changed(choices.get(name) ?? null, asked.has(name));
  }

  // --- places in the history

  const left = new Map(); // by place: how it was left
  let last = Date.now(); // places of an earlier visit to this page have lower numbers
  const newPlace = () => (last += 1);
  let here = history.state?.place ?? newPlace();

  function keep() {
    left.set(here, {
      open: new Set(document.querySelectorAll("main details[open]")),
      scrolled: [...document.querySelectorAll(SCROLLED)]
        .map((box) => [box, box.scrollLeft, box.scrollTop]),
      focused: document.activeElement,
    });
  }

  function restore(kept) {
    if (!kept) return;
    for (const fold of document.querySelectorAll("main details")) fold.open = kept.open.has(fold);
    for (const [box, x, y] of kept.scrolled) Object.assign(box, { scrollLeft: x, scrollTop: y });
    if (kept.focused?.isConnected) kept.focused.focus({ preventScroll: true });
  }

  // The link of this page that is being followed.
  let followed = null;
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest('a[href^="#"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
    if (due) write(); // to the place that is left
    if (link.hash === location.hash) {
      go(); // the address will not change
      if (choices.size) tellAll(choices);
      return;
    }
    followed = link.hash;
    keep();
  });

  // Gone back or forth. The browser scrolls the page itself, to where it was.
  window.addEventListener("popstate", (event) => {
    const place = event.state?.place;
    if (place === undefined) return; // a new place, as below
    clearTimeout(due);
    due = 0;
    keep();
    here = place;
    read();
    for (const returned of returns) returned(anchor);
    tellAll();
    restore(left.get(place));
  });

  window.addEventListener("hashchange", () => {
    if (history.state?.place !== undefined) return; // as above
    const isLink = location.hash === followed;
    followed = null;
    if (!isLink) keep();
    here = newPlace();
    const before = choices;
    read();
    const asked = isLink ? choices : new Map();
    const isSilent = isLink && choices.size === 0;
    // A link within the page changes what it names, and takes out what it names without a value;
    // what else was chosen stays. An address that was written says all that is chosen.
    const isNamed = ([name]) => choices.get(name) !== "";
    if (isLink) choices = new Map([...before, ...choices].filter(isNamed));
    write();
    go();
    if (!isSilent) tellAll(asked);
  });

  read();
  remember();

  return {
    /** Returns the choice of a name, or null. */
    get: (name) => choices.get(name) ?? null,
    /** Keeps a choice in the address; null takes it out. */
    set(name, value) {
      put(name, value);
      write();
    },
    /** Keeps a choice that changes often, as what is being written does: once it rests. */
    setSoon(name, value) {
      put(name, value);
      clearTimeout(due);
      due = setTimeout(write, RESTS_MS);
    },
    /**
     * Has a function called with the choice (or null) when the address changes from outside, and
     * with whether a link that was followed asks for it: even for what is chosen already.
     */
    watch: (name, changed) => listeners.set(name, changed),
    /** Has a function called with the anchor of a place that was gone back to, or forth. */
    onReturn: (returned) => returns.push(returned),
    /**
     * Has a function lead to the anchors that begin so, such as rows that are not drawn; it
     * returns whether it did.
     */
    guide: (prefix, lead) => guides.set(prefix, lead),
    /** Returns the id that the address leads to, or "". */
    anchor: decodeAnchor,
    go,
  };
})();
