// The ops drawn: cells, and a grid that holds only the rows in view.

// In rem, and how many are drawn above and below what is seen.
const OPS_ROW_REM = 1.75;
const OPS_SPARE_ROWS = 8;
const OPS_WIDEST_REM = 60; // a name of 126 characters

// --- cells -------------------------------------------------------------------------------------

const opsFormats = {
  time: (value) => durationParts(value),
  bytes: (value) => sizeParts(value),
  count: (value) => [countText(value), ""],
};
const opsExact = {
  time: (value) => `${countText(value)} µs`,
  bytes: (value) => `${countText(value)} bytes`,
  count: (value) => countText(value),
};

const ACRONYMS = new Set(["cpu", "gpu", "xla", "tf"]);
const causeWords = (id) => id.split("_")
  .map((word) => (ACRONYMS.has(word) ? word.toUpperCase() : word)).join(" ");

/** Returns a cell as the reader would say it, in full. */
function opsCellText(data, column, row) {
  const value = data.at(column, row);
  if (value === null) return ["unknown", data.whyUnknown(column)].filter(Boolean).join(": ");
  if (column.kind !== OPS_TEXT) return opsExact[column.kind](value);
  if (value === "") return column.empty ?? "none";
  return visible(column.isId ? value.split(" | ").map(causeWords).join("; ") : value);
}

function opsCellContent(data, column, row, width) {
  const value = data.at(column, row);
  if (value === null) return [make("span", { class: "unknown" }, "unknown")];
  if (column.kind !== OPS_TEXT) {
    const [figure, unit] = opsFormats[column.kind](value);
    const shown = make("span", { class: "figure" }, figure);
    if (unit) shown.append(make("span", { class: "unit" }, `\u00a0${unit}`));
    return [shown];
  }
  if (value === "") {
    return [make("span", { class: "quiet" }, column.empty ?? "none")];
  }
  if (column.name === "cause") return opsCauses(data, value, row);
  if (column.name === "certainty") return value.split(" | ").map(certaintyMark);
  const isName = column.name === "name" || column.name === "source";
  const length = Math.floor(width * 2.1); // as many characters as a cell has room for
  return [make("bdi", isName ? { class: "name" } : {}, cutName(value, length))];
}

function opsCauses(data, value, row) {
  if (value === "unexplained") return [make("a", { href: "#unexplained", tabindex: "-1" }, value)];
  const findings = data.packed.findings.at(row).split(" | ");
  return value.split(" | ").flatMap((cause, place) => {
    const address = addressOf("finding", findings[place] ?? "");
    const link = make("a", { href: address, tabindex: "-1" }, visible(causeWords(cause)));
    return place ? ["; ", link] : [link];
  });
}

// Certainty by word and by shape, as in the rest of the page.
function certaintyMark(value) {
  const drawing = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, given] of Object.entries(attributes)) element.setAttribute(name, given);
    return element;
  };
  const shape = drawing("svg", {
    class: "shape", viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true",
    focusable: "false",
  });
  const circle = { cx: 6, cy: 6, r: 4.75 };
  shape.append(drawing("circle", { class: "ring", ...circle }));
  if (value === "certain") shape.append(drawing("circle", { class: "fill", ...circle }));
  if (value === "likely") {
    shape.append(drawing("path", { class: "fill", d: "M6 1.25a4.75 4.75 0 0 0 0 9.5z" }));
  }
  return make("span", { class: `mark ${value}` }, shape, value);
}

// --- the grid ----------------------------------------------------------------------------------

/** A table that draws only the rows in view: a `grid` as WAI-ARIA describes it. */
class OpsGrid {
  constructor({ onSort, onActive }) {
    this.onSort = onSort;
    this.onActive = onActive;
    this.rows = new Uint32Array(0);
    this.columns = [];
    this.active = { row: -1, column: 0 }; // row -1 is the headings
    this.marked = -1; // row of the table, in any sort order
    this.drawn = new Map();
    this.head = make("div", { role: "row", class: "ops-row", "aria-rowindex": "1" });
    this.body = make("div", { role: "rowgroup", class: "ops-body" });
    this.element = make("div", { role: "grid", class: "ops-grid", "aria-label": "Ops" },
      make("div", { role: "rowgroup", class: "ops-head" }, this.head), this.body);
    this.element.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("focusin", (event) => this.onFocus(event));
    new ResizeObserver(() => this.fit()).observe(this.element);
  }

  get rowHeight() {
    return OPS_ROW_REM * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  /** Shows rows of the table in columns. */
  show({ data, rows, columns, sort }) {
    Object.assign(this, { data, rows, columns });
    this.widths = this.measured();
    this.element.setAttribute("aria-rowcount", rows.length + 1);
    this.element.setAttribute("aria-colcount", columns.length);
    this.body.style.height = `${rows.length * this.rowHeight}px`;
    this.head.replaceChildren(...columns.map((column, place) => this.heading(column, place, sort)));
    this.active.row = Math.min(this.active.row, rows.length - 1);
    this.active.column = Math.min(this.active.column, columns.length - 1);
    this.clear();
    this.draw();
  }

  heading(column, place, sort) {
    const isSorted = sort.column === column;
    const direction = sort.isDown ? "descending" : "ascending";
    const button = make("button", { type: "button", tabindex: "-1" }, column.heading,
      make("span", { class: "ops-arrow", "aria-hidden": "true" },
        isSorted ? (sort.isDown ? "▼" : "▲") : ""));
    button.addEventListener("click", () => this.onSort(column));
    return make("div", {
      role: "columnheader",
      class: column.kind === OPS_TEXT ? "ops-cell" : "ops-cell n",
      "aria-colindex": place + 1,
      "aria-sort": isSorted ? direction : "none",
    }, button);
  }

  /** Returns the widths of the columns, in rem: names get the room that is left. */
  measured() {
    const rest = this.columns.reduce((sum, column) => sum + column.width, 0);
    const room = this.element.clientWidth / (this.rowHeight / OPS_ROW_REM);
    const [name, ...others] = this.columns.map((column) => column.width);
    const widths = [
      Math.max(Math.min(name, room * 0.6), Math.min(name + room - rest, OPS_WIDEST_REM)), ...others,
    ];
    this.element.style.setProperty("--ops-columns", widths.map((w) => `${w}rem`).join(" "));
    return widths;
  }

  // The window has another width.
  fit() {
    if (!this.data) return;
    const before = this.widths;
    this.widths = this.measured();
    const hasFocus = this.body.contains(document.activeElement);
    if (before[0] !== this.widths[0]) this.clear();
    this.draw();
    if (hasFocus) this.activeElement()?.focus({ preventScroll: true });
  }

  clear() {
    this.drawn.clear();
    this.body.replaceChildren();
  }

  drawSoon() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.draw();
    });
  }

  /** Draws the rows in view, and the one that the keyboard is at. */
  draw() {
    if (!this.data) return;
    const height = this.rowHeight;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - OPS_SPARE_ROWS);
    const seen = Math.ceil(this.element.clientHeight / height) + 2 * OPS_SPARE_ROWS;
    const last = Math.min(this.rows.length, first + seen);
    const isWanted = (place) => (place >= first && place < last) || place === this.active.row;
    for (const [place, element] of this.drawn) {
      if (isWanted(place)) continue;
      element.remove();
      this.drawn.delete(place);
    }
    const added = [];
    for (let place = first; place < last; place += 1) if (!this.drawn.has(place)) added.push(place);
    const { row } = this.active;
    if (row >= 0 && !this.drawn.has(row) && !added.includes(row)) added.push(row);
    this.body.append(...added.map((place) => this.row(place, height)));
    this.rove();
  }

  row(place, height) {
    const row = this.rows[place];
    const element = make("div", {
      role: "row",
      class: row === this.marked ? "ops-row ops-marked" : "ops-row",
      "aria-rowindex": place + 2,
    }, ...this.columns.map((column, index) => this.cell(column, row, index)));
    element.style.top = `${place * height}px`;
    element.dataset.place = place;
    this.drawn.set(place, element);
    return element;
  }

  cell(column, row, index) {
    const text = opsCellText(this.data, column, row);
    return make("div", {
      role: column.name === "name" ? "rowheader" : "gridcell",
      class: column.kind === OPS_TEXT ? "ops-cell" : "ops-cell n",
      "aria-colindex": index + 1,
      tabindex: "-1",
      title: text,
    }, ...opsCellContent(this.data, column, row, this.widths[index]));
  }

  // One cell is what Tab comes to; arrows lead from there.
  rove() {
    this.element.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    this.activeElement()?.setAttribute("tabindex", "0");
  }

  activeElement() {
    const { row, column } = this.active;
    if (row < 0) return this.head.children[column]?.firstElementChild;
    return this.drawn.get(row)?.children[column];
  }

  /** Moves to a cell, brings it into view and gives it the focus. */
  moveTo(row, column) {
    this.active = {
      row: Math.max(-1, Math.min(row, this.rows.length - 1)),
      column: Math.max(0, Math.min(column, this.columns.length - 1)),
    };
    this.bringIntoView(this.active.row);
    this.draw();
    const element = this.activeElement();
    if (!element) return;
    element.focus({ preventScroll: true });
    this.bringAcross(element.closest(".ops-cell"));
  }

  bringAcross(cell) {
    const { left, right } = cell.getBoundingClientRect();
    const frame = this.element.getBoundingClientRect();
    const named = this.head.firstElementChild;
    // The first column may stick to the left, and hide what is scrolled under it.
    const isSticky = getComputedStyle(named).position === "sticky";
    const isFirst = cell.matches(":first-child");
    const edge = frame.left + (isSticky && !isFirst ? named.offsetWidth : 0);
    if (isFirst) this.element.scrollLeft = 0;
    else if (left < edge) this.element.scrollLeft -= edge - left;
    else if (right > frame.right) {
      this.element.scrollLeft += Math.min(right - frame.right, left - edge);
    }
  }

  bringIntoView(place) {
    if (place < 0) return;
    const height = this.rowHeight;
    const room = this.element.clientHeight - this.head.offsetHeight;
    const top = place * height;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + height > this.element.scrollTop + room) {
      this.element.scrollTop = top + height - room;
    }
  }

  /** Marks a row of the table and goes to it. */
  mark(place) {
    this.marked = this.rows[place];
    this.clear();
    this.element.scrollTop = Math.max(0, (place - 3) * this.rowHeight);
    this.moveTo(place, 0);
  }

  onFocus(event) {
    const cell = event.target.closest(".ops-cell");
    const row = cell?.parentElement;
    if (!row) return;
    this.active = {
      row: row === this.head ? -1 : Number(row.dataset.place),
      column: Number(cell.getAttribute("aria-colindex")) - 1,
    };
    this.rove();
    this.onActive(this.active);
  }

  onKey(event) {
    if (event.altKey || event.metaKey) return;
    if (event.key === "Enter" && this.active.row >= 0) {
      this.activeElement()?.querySelector("a")?.click();
      return;
    }
    const target = this.keyTarget(event);
    if (!target) return;
    event.preventDefault();
    this.moveTo(...target);
  }

  keyTarget({ key, ctrlKey }) {
    const { row, column } = this.active;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 2);
    const end = this.columns.length - 1;
    if (ctrlKey) return { Home: [0, 0], End: [this.rows.length - 1, end] }[key];
    return {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageUp: [Math.max(0, row - page), column],
      PageDown: [row + page, column],
      Home: [row, 0],
      End: [row, end],
    }[key];
  }
}
