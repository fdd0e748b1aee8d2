// The reader's notes on findings, and which findings were accepted, and why.
//
// It is kept in three places: the browser's memory, where it has one for files; this very file,
// saved again with the notes in it; and `acceptances.json`, which a check in CI reads
// (`traceanalyzer/acceptances.py`). What a reader writes is data like any other: text on the page,
// escaped in the file.

// The page as it came, before any part of the script changes it: what is saved is this again.
const pageSource = document.documentElement.outerHTML.replace(/^<html[^>]*>/, '<html lang="en">');

const notes = (() => {
  // Joined here, so that the page contains the mark only once, not also in its script.
  const OPENING = ["<div id=", ">"].join('"kept-notes"');
  const CLOSING = "</div>";
  const MOST_CHARACTERS = 10_000;
  const kept = new Map(); // id of a finding -> { id, note, accepted: {reason, until} | null, at }
  const watchers = [];

  // Tells reports apart: the same run and findings have the same notes.
  function reportKey() {
    const articles = document.querySelectorAll("article[data-finding]");
    const ids = [...articles].map((article) => article.dataset.finding);
    let hash = 0x811c9dc5;
    for (const character of [document.title, ...ids].join("\n")) {
      hash = Math.imul(hash ^ character.codePointAt(0), 0x01000193) >>> 0;
    }
    return `notes.${hash.toString(16).padStart(8, "0")}`;
  }
  const key = reportKey();

  // Entries of any origin: what has not their form is passed over.
  function entries(text) {
    try {
      const found = JSON.parse(text ?? "[]");
      return Array.isArray(found) ? found.map(entryOf).filter(Boolean) : [];
    } catch {
      return [];
    }
  }

  function entryOf(value) {
    if (typeof value?.id !== "string" || typeof value.at !== "string") return null;
    const note = typeof value.note === "string" ? value.note.slice(0, MOST_CHARACTERS) : "";
    return { id: value.id, note, accepted: acceptanceOf(value.accepted), at: value.at };
  }

  function acceptanceOf(value) {
    if (typeof value?.reason !== "string" || !value.reason.trim()) return null;
    const until = isDate(value.until) ? value.until : null;
    return { reason: value.reason.slice(0, MOST_CHARACTERS), until };
  }

  // The later of two that speak of the same finding holds.
  function take(found) {
    for (const entry of found) {
      const known = kept.get(entry.id);
      if (!known || known.at < entry.at) kept.set(entry.id, entry);
    }
  }
  take(entries(document.getElementById("data-notes")?.textContent));
  take(entries(memory.get(key)));

  function change(id, changes) {
    const before = kept.get(id) ?? { id, note: "", accepted: null };
    kept.set(id, { ...before, ...changes, at: new Date().toISOString() });
    memory.set(key, JSON.stringify([...kept.values()]));
    for (const watcher of watchers) watcher();
  }

  // As JSON within a script element: nothing in it may end that, or begin another; and what does
  // not show is written so that it does.
  function asData(value) {
    const escape = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
    return JSON.stringify(value).replace(/[<>&]/g, escape)
      .replace(HIDDEN, (character) => character.split("").map(escape).join(""));
  }

  function asMarkup(text) {
    const named = { "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" };
    return visible(text).replace(/[<>&"]/g, (character) => named[character]);
  }

  // What a reader without scripts sees: the same as text, in the place where the notes are kept.
  function readable() {
    const items = [...kept.values()].filter(isShown).map((entry) => {
      const article = articleOf(entry.id);
      const name = article
        ? `<a href="#${asMarkup(article.id)}">Finding ${asMarkup(article.dataset.label)}</a>`
        : `A finding that is not in this report, ${asMarkup(entry.id)}`;
      return `<li>${name}: ${[acceptedText(entry), entry.note].filter(Boolean).map(asMarkup)
        .join(" Note: ")}</li>`;
    });
    if (items.length === 0) return "";
    return `<h3>Notes of a reader</h3>\n<ul class="plain">\n${items.join("\n")}\n</ul>\n`;
  }

  return {
    /** Returns what is kept of a finding; it may be empty. */
    of: (id) => kept.get(id) ?? { id, note: "", accepted: null },
    all: () => [...kept.values()],
    change,
    key,
    /** Has a function called whenever something is kept or taken back. */
    watch: (watcher) => watchers.push(watcher),
    /** Returns this page, with the notes in it, as it is written to a file. */
    page() {
      const start = pageSource.indexOf(OPENING) + OPENING.length;
      const end = pageSource.indexOf(CLOSING, start);
      const data = asData([...kept.values()]);
      const tag = "script";
      const block = `\n${readable()}<${tag} type="application/json" id="data-notes">` +
        `${data}</${tag}>\n`;
      return `<!DOCTYPE html>\n${pageSource.slice(0, start)}${block}${pageSource.slice(end)}\n`;
    },
    /** Returns the acceptances as `acceptances.json` has them. */
    acceptances() {
      const found = [...kept.values()].filter((entry) => entry.accepted);
      return found.map((entry) => ({ id: entry.id, ...entry.accepted }));
    },
  };
})();

/** Returns whether a text is a day that there is, as 2027-01-31. */
function isDate(text) {
  if (typeof text !== "string" || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const day = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
}

function today() {
  const now = new Date();
  const two = (number) => String(number).padStart(2, "0");
  return `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
}

function hasExpired(accepted) {
  return accepted.until !== null && accepted.until < today();
}

function isShown(entry) {
  return Boolean(entry.accepted || entry.note);
}

function acceptedText({ accepted }) {
  if (!accepted) return "";
  const end = accepted.until === null ? "" : ` until ${accepted.until}`;
  return `Accepted${end} because: ${accepted.reason}`;
}

function articleOf(id) {
  return [...document.querySelectorAll("article[data-finding]")]
    .find((article) => article.dataset.finding === id);
}

// Lines stay apart; what does not show is made visible.
function readerText(text) {
  return text.split(/\r?\n/).map(visible).join("\n");
}

// --- on a finding ----------------------------------------------------------------------------

let fieldNumber = 0;

function makeField(label, control) {
  fieldNumber += 1;
  control.id = `note-field-${fieldNumber}`;
  return make("div", { class: "note-field" }, make("label", { for: control.id }, label), control);
}

function noteForm(id, close) {
  const text = make("textarea", { rows: 3 });
  text.value = notes.of(id).note;
  const keep = () => {
    notes.change(id, { note: text.value.trim() });
    announce(text.value.trim() ? "Note saved." : "Note removed.");
    close();
  };
  return [text, makeField("Note", text), makeButton("Save note", keep)];
}

function acceptForm(id, close) {
  const { accepted } = notes.of(id);
  const reason = make("textarea", { rows: 2, required: true });
  const until = make("input", { type: "date", min: today() });
  const fault = make("p", { class: "note-fault", role: "alert" });
  fault.id = `note-fault-${(fieldNumber += 1)}`;
  reason.value = accepted?.reason ?? "";
  until.value = accepted?.until ?? "";
  reason.setAttribute("aria-describedby", fault.id);
  const keep = () => {
    if (!reason.value.trim()) {
      fault.textContent = "Give a reason: others need it later.";
      reason.setAttribute("aria-invalid", "true");
      reason.focus();
      return;
    }
    notes.change(id, { accepted: { reason: reason.value.trim(), until: until.value || null } });
    announce("Accepted.");
    close();
  };
  const parts = [
    reason,
    makeField("It is accepted because", reason),
    makeField("Until (may be left out)", until),
    fault,
    makeButton("Accept", keep),
  ];
  if (accepted) {
    parts.push(makeButton("Withdraw acceptance", () => {
      notes.change(id, { accepted: null });
      announce("Acceptance withdrawn.");
      close();
    }));
  }
  return parts;
}

// Opens a form below the finding's head, in place of another that may be open.
function openNoteForm(article, label, build, from) {
  const begun = article.querySelector(".note-form");
  const changed = [...(begun?.querySelectorAll("textarea, input") ?? [])]
    .find((field) => field.value !== field.defaultValue);
  if (changed) { // what was written is not thrown away
    announce("Save or cancel your edit first.");
    changed.focus();
    return;
  }
  begun?.remove();
  const form = make("div", { class: "note-form", role: "group", "aria-label": label });
  const close = () => {
    form.remove();
    from.focus();
  };
  const [first, ...rest] = build(article.dataset.finding, close);
  form.append(...rest, makeButton("Cancel", close));
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  });
  article.querySelector("header").append(form);
  first.focus();
}

function tellOnFinding(article) {
  const entry = notes.of(article.dataset.finding);
  article.querySelector(".note-text")?.remove();
  article.classList.toggle("accepted", Boolean(entry.accepted));
  article.querySelector(".note-accept").textContent = entry.accepted
    ? "Change acceptance…"
    : "Accept…";
  if (!isShown(entry)) return;
  const text = make("div", { class: "note-text" });
  if (entry.accepted) {
    const word = hasExpired(entry.accepted) ? "Acceptance expired" : "Accepted";
    const end = entry.accepted.until === null ? "" : `, until ${entry.accepted.until}`;
    text.append(
      make("p", {}, make("strong", {}, `${word}${end}.`), ` ${readerText(entry.accepted.reason)}`),
    );
  }
  if (entry.note) {
    text.append(make("p", {}, make("strong", {}, "Note."), ` ${readerText(entry.note)}`));
  }
  article.querySelector(".card-tools").before(text);
}

function tellInTable(row) {
  row.querySelector(".note-word")?.remove();
  const { accepted } = notes.of(row.dataset.finding);
  if (!accepted) return;
  const word = hasExpired(accepted) ? "acceptance expired" : "accepted";
  row.querySelector("th").append(make("span", { class: "at note-word" }, word));
}

// --- files ------------------------------------------------------------------------------------

function loadAcceptances(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return "The file is not JSON; nothing was loaded.";
  }
  if (!Array.isArray(found)) return "The file contains no acceptances; nothing was loaded.";
  let loaded = 0;
  let absent = 0;
  for (const value of found) {
    if (typeof value?.id !== "string" || typeof value.reason !== "string") continue;
    if (!value.reason.trim() || (value.until != null && !isDate(value.until))) continue;
    notes.change(value.id, { accepted: { reason: value.reason, until: value.until ?? null } });
    loaded += 1;
    if (!articleOf(value.id)) absent += 1;
  }
  const left = found.length - loaded;
  return [
    `${loaded} of ${found.length} acceptances loaded`,
    absent ? `${absent} for findings that are not in this report` : "",
    left ? `${left} ignored: each needs an id, a reason and, optionally, a date such as 2027-01-31` : "",
  ].filter(Boolean).join("; ") + ".";
}

function noteTools() {
  const said = make("p", { class: "note-said" });
  const file = make("input", { type: "file", accept: ".json,application/json", hidden: true });
  file.addEventListener("change", async () => {
    if (file.files.length === 0) return;
    said.textContent = loadAcceptances(await file.files[0].text());
    announce(said.textContent);
    file.value = "";
  });
  const name = decodeURIComponent(location.pathname.split("/").pop() || "report.html");
  const savePage = makeButton("Save page with notes", () =>
    download(name, "text/html", notes.page()));
  const saveList = makeButton("Save acceptances", () =>
    download("acceptances.json", "application/json",
      `${JSON.stringify(notes.acceptances(), null, 2)}\n`));
  const load = makeButton("Load acceptances", () => file.click());
  const tell = () => {
    savePage.hidden = notes.all().length === 0;
    saveList.hidden = notes.acceptances().length === 0;
  };
  notes.watch(tell);
  tell();
  const tools = make("div", { class: "tools note-tools", role: "group",
    "aria-label": "Notes and acceptances" }, savePage, saveList, load, file);
  return [tools, said];
}

function tellInContents(articles) {
  const link = document.querySelector('.contents a[href="#findings"]');
  link.querySelector(".note-count")?.remove();
  const held = new Set();
  for (const article of articles) {
    const { accepted } = notes.of(article.dataset.finding);
    if (accepted && !hasExpired(accepted)) held.add(article.dataset.finding);
  }
  if (held.size === 0) return;
  link.append(
    make("span", { class: "tally note-count" }, ` ${held.size} accepted`));
}

begin(() => {
  const articles = [...document.querySelectorAll("article[data-finding]")];
  const place = document.getElementById("kept-notes");
  if (articles.length === 0) return;
  for (const article of articles) {
    const tools = make("div", { class: "tools card-tools" });
    const note = makeButton("Note…", () => openNoteForm(article, "Note", noteForm, note));
    const accept = makeButton("Accept…", () =>
      openNoteForm(article, "Acceptance", acceptForm, accept), { class: "tool note-accept" });
    const title = article.querySelector("h3").textContent.trim();
    note.setAttribute("aria-description", cutName(title));
    accept.setAttribute("aria-description", cutName(title));
    tools.append(note, accept);
    article.querySelector("header").append(tools);
  }
  place?.before(...noteTools());
  const rows = [...document.querySelectorAll("#findings tr[data-finding]")];
  const tell = () => {
    articles.forEach(tellOnFinding);
    rows.forEach(tellInTable);
    tellInContents(articles);
  };
  notes.watch(tell);
  tell();
});
