// What the reader has chosen stands in the address, so that it can be sent to another:
// `#finding-1a2b3c4d&ops.q=type:Cast` is an anchor and then the choices, each `name=value`.

const state = (() => {
  const listeners = new Map();
  const guides = new Map();
  let anchor = "";
  let choices = new Map();

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
    const told = [...choices].map(([name, value]) =>
      `${written(name)}=${written(value)}`);
    const hash = [anchor, ...told].filter(Boolean).join("&");
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      // Browsers refuse what comes too often, or is too long: the address stays behind.
    }
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

  // The link of this page that is being followed.
  let followed = null;
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest('a[href^="#"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
    followed = link.hash;
    if (followed === location.hash) go(); // the address will not change
  });

  window.addEventListener("hashchange", () => {
    const kept = choices;
    read();
    // A link within the page changes what it names; what else was chosen stays. An address that
    // was written or gone back to says all that is chosen.
    if (choices.size > 0 && location.hash === followed) {
      choices = new Map([...kept, ...choices]);
      write();
    }
    followed = null;
    if (choices.size === 0 && kept.size > 0) {
      choices = kept;
      write();
      go();
      return;
    }
    go();
    for (const [name, changed] of listeners) changed(choices.get(name) ?? null);
  });
  read();

  return {
    /** Returns the choice of a name, or null. */
    get: (name) => choices.get(name) ?? null,
    /** Keeps a choice in the address; null takes it out. */
    set(name, value) {
      if (value === null || value === "") choices.delete(name);
      else choices.set(name, value);
      write();
    },
    /** Has a function called with the choice (or null) when the address changes from outside. */
    watch: (name, changed) => listeners.set(name, changed),
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
