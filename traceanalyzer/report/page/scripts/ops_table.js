// The query for ops, and the controls around their grid.

const OPS_EXAMPLES = [
  ["placement:cpu cause:dtype >1ms", "on the CPU, for a cause with “dtype” in its name, and more "
    + "than 1 ms of host time"],
  ["cause:unexplained", "on the CPU, and no rule found out why"],
  ["waits>0", "the GPU waited for it"],
  ["type:Cast -placement:cpu", "casts that did not run on the CPU"],
  ["bytes>1MB", "more than 1 MB was copied to it or from it"],
  ["kernels>=10 runs>5", "started ten kernels or more, and ran more than five times"],
  ["source:train.py:88", "comes from this line"],
  ["waits=unknown", "how long the GPU waited is unknown"],
];

/** The query, and the controls around the grid. */
class OpsView {
  constructor(place) {
    this.place = place;
    this.held = Number(place.dataset.rows);
    this.total = Number(place.dataset.total);
    this.sort = { column: null, isDown: false };
    this.columns = [];
    this.terms = [];
    this.kept = null;
    this.grid = new OpsGrid({
      onSort: (column) => this.sortBy(column),
      onActive: (active) => this.tellCell(active),
    });
    this.build();
  }

  build() {
    this.box = make("input", {
      type: "text", id: "ops-filter", class: "ops-filter", autocomplete: "off", spellcheck: "false",
      placeholder: OPS_EXAMPLES[0][0], "aria-describedby": "ops-error",
    });
    this.count = make("p", { class: "ops-count", role: "status" });
    this.error = make("p", { class: "ops-error", id: "ops-error", "aria-live": "polite" });
    this.left = make("div", { class: "ops-left", "aria-live": "polite" });
    this.chooser = make("fieldset", {}, make("legend", { class: "said" }, "Columns shown"));
    this.cellLine = make("p", { class: "ops-whole", "aria-hidden": "true" });
    this.box.addEventListener("input", () => this.asked());
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.box.blur();
    });
    const more = this.held < this.total
      ? make("p", { class: "cutting" }, `The most expensive ${countText(this.held)} of `
        + `${countText(this.total)} ops are in this file. All of them: `,
      make("code", {}, "traceanalyzer tables PATH -o DIR"))
      : "";
    this.place.append(
      make("div", { class: "ops-bar" },
        make("label", { for: "ops-filter" }, "Filter"), this.box, this.count),
      this.error,
      this.left,
      make("div", { class: "ops-tools" },
        make("details", {}, make("summary", {}, "What can be written"), this.help()),
        make("details", {}, make("summary", {}, "Columns"), this.chooser),
        makeButton("Copy as CSV", () => this.copy()),
        makeButton("Download CSV", () => download("ops.csv", "text/csv", this.csv())),
        makeButton("Reset", () => this.reset())),
      this.grid.element, this.cellLine, more);
  }

  help() {
    const fields = (isFigure) => make("ul", { class: "ops-fields" }, ...[...opsGrammar.fields]
      .filter(([, field]) => !field.isAlias && (field.kind !== OPS_TEXT) === isFigure)
      .map(([name, field]) => make("li", {}, make("code", {}, name), ` ${field.heading}`)));
    const entry = ([query, meaning]) => make("div", {},
      make("dt", {}, makeButton(query, () => this.ask(query), { class: "tool ops-example" })),
      make("dd", {}, meaning));
    return make("div", { class: "ops-help" },
      make("p", {}, "A word is looked for in an op’s name, type, function and source. All that is "
        + "written must hold; a - before a term turns it round: of what is unknown, neither holds. Put "
        + "quotes around spaces."),
      make("dl", {}, ...OPS_EXAMPLES.map(entry)),
      make("p", {}, "field:text finds texts that hold it, field=text those that are it. Fields:"),
      fields(false),
      make("p", {}, "Figures are compared by >, >=, <, <= and =. >1ms alone is about host time, "
        + ">1MB alone about the bytes copied. What is unknown is neither more nor less; "
        + "field=unknown finds it. Figures:"),
      fields(true));
  }

  /** Shows the table once it is opened. */
  begin(table) {
    const { bytesUnknown: bytes, waitsUnknown: waits } = this.place.dataset;
    this.data = new OpsData(table, { bytes, waits });
    this.standard = OPS_COLUMNS.filter((c) => !c.isHidden && !this.data.isBare(c));
    this.chooser.append(...OPS_COLUMNS.map((column) => this.choice(column)));
    state.watch("ops.q", () => this.read());
    state.watch("ops.sort", () => this.read());
    state.watch("ops.cols", () => this.read());
    this.read();
  }

  choice(column) {
    const box = make("input", { type: "checkbox", value: column.name });
    box.disabled = column.name === "name"; // ops must stay distinguishable
    box.addEventListener("change", () => {
      const boxes = [...this.chooser.querySelectorAll("input")];
      this.chooseColumns(OPS_COLUMNS.filter((_, place) => boxes[place].checked));
      this.show();
    });
    return make("label", {}, box, column.heading);
  }

  // From the address.
  read() {
    const named = (name) => OPS_COLUMNS.find((column) => column.name === name);
    const sort = state.get("ops.sort") ?? "";
    this.sort = { column: named(sort.replace(/^-/, "")) ?? null, isDown: sort.startsWith("-") };
    const names = state.get("ops.cols")?.split(",");
    const chosen = OPS_COLUMNS.filter((c) => c.name === "name" || names?.includes(c.name));
    this.setColumns(names ? chosen : this.standard);
    this.box.value = state.get("ops.q") ?? "";
    this.filter();
    this.show();
  }

  setColumns(columns) {
    this.columns = columns;
    for (const box of this.chooser.querySelectorAll("input")) {
      box.checked = columns.some((column) => column.name === box.value);
    }
  }

  chooseColumns(columns) {
    this.setColumns(columns);
    const names = columns.map((column) => column.name).join(",");
    const standard = this.standard.map((column) => column.name).join(",");
    state.set("ops.cols", names === standard ? null : names);
  }

  ask(query) {
    this.box.value = query;
    this.asked();
    this.box.focus();
  }

  asked() {
    if (this.filter()) this.grid.element.scrollTop = 0;
    this.show();
    state.setSoon("ops.q", this.box.value.trim());
  }

  /** Finds the rows of the query; false where it cannot be understood, and the last ones stay. */
  filter() {
    try {
      this.terms = readQuery(this.box.value, opsGrammar);
      this.kept = this.terms.length ? matching(this.terms, this.data) : null;
      this.tellError("");
      return true;
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      this.tellError(visible(error.message));
      return false;
    }
  }

  tellError(message) {
    this.error.textContent = message;
    this.box.setAttribute("aria-invalid", String(message !== ""));
  }

  sortBy(column) {
    const isSame = this.sort.column === column;
    this.sort = { column, isDown: isSame ? !this.sort.isDown : column.kind !== OPS_TEXT };
    state.set("ops.sort", `${this.sort.isDown ? "-" : ""}${column.name}`);
    this.grid.element.scrollTop = 0;
    this.show();
    const place = this.columns.indexOf(column);
    this.grid.moveTo(-1, place);
    const ends = column.kind === OPS_TEXT ? ["A", "Z"] : ["the least", "the greatest"];
    if (this.sort.isDown) ends.reverse();
    announce(`Sorted by ${column.heading}, from ${ends.join(" to ")}`);
  }

  show() {
    const all = this.data.order(this.sort.column, this.sort.isDown);
    this.rows = this.kept ? all.filter((row) => this.kept[row] === HOLDS) : all;
    this.grid.show({ data: this.data, rows: this.rows, columns: this.columns, sort: this.sort });
    this.count.textContent = `${countText(this.rows.length)} of ${countText(this.data.rows)} ops`;
    this.tellLeftOut();
    this.cellLine.textContent = "";
  }

  // A negated term does not match ops for which its field is unknown.
  tellLeftOut() {
    const found = this.kept ? leftOut(this.terms, this.data, this.kept) : [];
    this.left.replaceChildren(...found.map(({ count, headings, query }) => make("p", {},
      `Left out besides: ${countText(count)} ${count === 1 ? "op" : "ops"} of which `
        + `${headings.map((heading) => `“${heading}”`).join(" and ")} `
        + `${headings.length === 1 ? "is" : "are"} unknown. `,
      makeButton(count === 1 ? "Show it" : "Show them", () => this.ask(query)))));
  }

  // A touch shows no title, and a narrow window hides the op's name beside its figures, so the
  // full text of a cell is shown below.
  tellCell({ row, column }) {
    if (row < 0) return;
    const [name, shown] = [this.columns[0], this.columns[column]];
    const text = opsCellText(this.data, shown, this.rows[row]);
    const of = shown === name ? "" : `, of ${cutName(this.data.at(name, this.rows[row]) ?? "")}`;
    this.cellLine.textContent = `${shown.heading}: ${text}${of}`;
  }

  csv() {
    return opsAsCsv(this.data, this.columns, this.rows);
  }

  async copy() {
    const copied = await copyText(this.csv());
    const rows = countText(this.rows.length);
    announce(copied ? `${rows} rows copied` : "The browser does not allow copying");
  }

  reset() {
    for (const name of ["ops.q", "ops.sort", "ops.cols"]) state.set(name, null);
    this.grid.marked = -1;
    this.read();
  }

  /** Leads to the row of an op; what hides it is taken away. */
  reveal(opId) {
    const row = this.data.rowOf(opId);
    this.place.scrollIntoView();
    if (row < 0) {
      announce(`The op ${visible(opId)} is not among those in this file`);
      return;
    }
    if (!this.rows.includes(row)) {
      state.set("ops.q", null);
      this.read();
      announce("The filter was cleared, because it hid the op");
    }
    this.grid.mark(this.rows.indexOf(row));
  }

  /** Marks the row of an op, or none, where the reader has gone back to it. */
  remark(opId) {
    if (!this.data) return;
    const row = opId === null ? -1 : this.data.rowOf(opId);
    if (row === this.grid.marked) return;
    this.grid.marked = row;
    this.show();
  }
}

begin(() => {
  const place = document.querySelector("#ops .ops-live");
  if (!place) return;
  const section = place.closest("section");
  const view = new OpsView(place);
  section.classList.add("ops-scripted");
  const ready = packedTable("ops").then((table) => view.begin(table));
  ready.catch((error) => {
    // The static table is still there.
    section.classList.remove("ops-scripted");
    place.replaceChildren();
    console.error(error);
  });
  state.guide("op-", (anchor) => {
    const target = document.getElementById(anchor);
    const isDrawn = target && !target.closest(".ops-static");
    if (isDrawn || !section.classList.contains("ops-scripted")) return false;
    ready.then(() => view.reveal(decodedOp(anchor)), () => {});
    return true;
  });
  state.onReturn((anchor) => view.remark(anchor.startsWith("op-") ? decodedOp(anchor) : null));
  keys.add("/", "Filter the ops", () => {
    view.box.focus();
    view.box.scrollIntoView({ block: "nearest" });
  });
});

function decodedOp(anchor) {
  try {
    return decodeURIComponent(anchor.slice(3));
  } catch {
    return anchor.slice(3);
  }
}
