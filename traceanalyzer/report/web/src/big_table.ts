// A large table: filtered by a query, sorted by its headings, with only the rows in view drawn.

import {
  elementScroll, observeElementOffset, observeElementRect, Virtualizer,
} from "@tanstack/virtual-core";
import type { BigTable, Column } from "./blocks";
import { announce, button, download, later, make } from "./dom";
import { drawFirst, drawer } from "./figures";
import { count, counted, cut, exact, quantity, visible } from "./format";
import { key } from "./keys";
import { unpack } from "./packed";
import { HOLDS, leftOut, matching, QueryError, readQuery } from "./query";
import { encoded, state } from "./state";
import { TableData, unitOf } from "./table_data";

const ROW = 30; // pixels
const CARD = 84; // of a row in a narrow window
const NARROW = 640;
const FIRST = 260; // the least width of the first column
const SAMPLE = 300; // rows by which the widths of texts are chosen

/** The tables that were drawn, by the column that selections are made by. */
export const tables = new Map<string, TableView>();

export class TableView {
  readonly element: HTMLElement;
  readonly data: TableData;
  private rows: Uint32Array;
  private columns: Column[];
  private sort: { column: Column | null; isDown: boolean } = { column: null, isDown: true };
  private active = -1;
  private isShowing = false; // draws once, when all is set
  private readonly key: string;
  private readonly box = make("input", { type: "search", spellcheck: false, autocomplete: "off" });
  private readonly error = make("p", { class: "query-error", role: "alert" });
  private readonly status = make("span", { class: "quiet", role: "status" });
  private readonly head = make("div", { role: "row", class: "grid-head" });
  private readonly body = make("div", { role: "rowgroup", class: "grid-body" });
  private readonly grid: HTMLElement;
  private readonly virtual: Virtualizer<HTMLElement, HTMLElement>;

  constructor(private readonly block: BigTable, data: TableData) {
    this.data = data;
    this.key = block.key ?? "op_id";
    this.rows = data.order(null, true);
    this.columns = data.columns.filter((column) => column.name !== this.key && !data.isBare(column));
    const fields = [...data.grammar.fields].filter(([, f]) => !f.isAlias).map(([name]) => name);
    this.box.setAttribute("aria-label", `Filter ${block.id}`);
    this.box.placeholder = "Filter: words, type:Cast, -placement:gpu, >1ms";
    this.box.title = `Fields: ${fields.join(", ")}`;
    this.grid = make("div", {
      role: "grid", class: "grid", tabindex: 0, "aria-label": block.id,
    }, make("div", { role: "rowgroup" }, this.head), this.body);
    const help = make("details", { class: "query-help" }, make("summary", {}, "How to filter"),
      make("p", {}, "Words look in all texts. “field:text” and “field=text” look in one, “field>1ms” "
        + "compares, a “-” before a term negates it, “field=unknown” finds what is unknown."),
      make("p", {}, "Fields: ", ...fields.flatMap((name) => [make("code", {}, name), " "])));
    this.element = make("div", {},
      make("div", { class: "table-tools" }, this.box, this.status,
        button("CSV", () => this.save(), { title: "Save the rows shown as CSV" })),
      this.error, this.grid, help);
    this.virtual = new Virtualizer({
      count: 0,
      getScrollElement: () => this.grid,
      estimateSize: () => this.rowHeight(),
      scrollToFn: elementScroll,
      observeElementRect,
      observeElementOffset,
      overscan: 5,
      onChange: () => {
        if (!this.isShowing) this.draw();
      },
    });
    this.listen();
  }

  /** Begins to draw, once the element is on the page. */
  begin(): void {
    this.virtual._didMount();
    const take = (query: string | null): void => {
      this.box.value = query ?? "";
      this.filter();
    };
    state.watch(`${this.block.id}.q`, take);
    state.watch(`${this.block.id}.sort`, () => this.takeSort());
    state.watch("op", () => this.showSelected());
    state.watch("figures", () => this.draw());
    this.takeSort(false);
    take(state.get(`${this.block.id}.q`));
    this.showSelected();
    let isNarrow = this.isNarrow();
    new ResizeObserver(() => {
      if (this.isNarrow() === isNarrow) return;
      isNarrow = !isNarrow;
      this.show();
    }).observe(this.grid);
  }

  focusQuery(): void {
    this.element.scrollIntoView({ block: "nearest" });
    this.box.focus();
  }

  private isNarrow = (): boolean => this.grid.clientWidth < NARROW;
  private rowHeight = (): number => (this.isNarrow() ? CARD : ROW);

  private listen(): void {
    const asked = later(30, () => {
      state.setSoon(`${this.block.id}.q`, this.box.value.trim());
      this.filter();
    });
    this.box.addEventListener("input", asked);
    this.grid.addEventListener("keydown", (event) => this.onKey(event));
    this.body.addEventListener("click", (event) => {
      const row = (event.target as Element).closest<HTMLElement>("[data-at]");
      if (row) this.select(Number(row.dataset.at));
    });
  }

  private onKey(event: KeyboardEvent): void {
    if (event.target !== this.grid) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.rowHeight()) - 2);
    const last = this.rows.length - 1;
    const to = {
      ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page,
      PageUp: this.active - page, Home: 0, End: last,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.active = Math.max(0, Math.min(last, to));
      this.virtual.scrollToIndex(this.active, { align: "auto" });
      this.draw();
    } else if (event.key === "Enter" && this.active >= 0) {
      event.preventDefault();
      this.select(this.active);
    }
  }

  private select(at: number): void {
    this.active = at;
    const id = this.data.text(this.key, this.rows[at]);
    if (id && this.key === "op_id") state.follow(`op-${id}`);
    this.draw();
  }

  // The selected op may have been selected anywhere on the page.
  private showSelected(): void {
    const id = state.get("op");
    const row = id ? this.data.rowOf(this.key, id) : -1;
    const at = row < 0 ? -1 : this.rows.indexOf(row);
    if (at >= 0 && at !== this.active) {
      this.active = at;
      this.virtual.scrollToIndex(at, { align: "auto" });
    }
    this.draw();
  }

  private filter(): void {
    const all = this.data.order(this.sort.column, this.sort.isDown);
    let left = 0;
    try {
      const terms = readQuery(this.box.value, this.data.grammar);
      const kept = terms.length ? matching(terms, this.data) : null;
      this.rows = kept ? all.filter((row) => kept[row] === HOLDS) : all;
      left = kept ? leftOut(kept) : 0;
      this.error.textContent = "";
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      this.error.textContent = visible(error.message);
    }
    this.box.setAttribute("aria-invalid", String(this.error.textContent !== ""));
    const unknown = left ? `; ${counted(left, "row")} left out because the field is unknown` : "";
    this.status.textContent = `${count(this.rows.length)} of ${count(this.data.rows)}${unknown}`;
    this.grid.dataset.query = this.box.value;
    this.active = -1;
    this.grid.scrollTop = 0;
    this.show();
  }

  private sortBy(column: Column): void {
    const isDown = this.sort.column === column ? !this.sort.isDown : unitOf(column) !== null;
    state.set(`${this.block.id}.sort`, `${isDown ? "-" : ""}${column.name}`);
    announce(`Sorted by ${column.title}, ${isDown ? "descending" : "ascending"}`);
  }

  private takeSort(isShown = true): void {
    const asked = state.get(`${this.block.id}.sort`) ?? "";
    const name = asked.replace(/^-/, "");
    const column = this.data.columns.find((one) => one.name === name) ?? null;
    this.sort = { column, isDown: asked.startsWith("-") || !column };
    if (isShown) this.filter();
  }

  private show(): void {
    const widths = this.columns.map((column, at) => this.width(column, at));
    const total = widths.reduce((sum, width) => sum + width, 0);
    this.grid.style.setProperty("--columns",
      widths.map((width, at) => (at ? `${width}px` : `minmax(${width}px, 1fr)`)).join(" "));
    this.grid.style.setProperty("--width", `${total}px`);
    this.grid.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.head.replaceChildren(...this.columns.map((column) => this.heading(column)));
    const height = this.rowHeight();
    this.isShowing = true;
    this.virtual.setOptions({
      ...this.virtual.options, count: this.rows.length, estimateSize: () => height,
    });
    this.virtual.measure();
    this.virtual._willUpdate();
    this.isShowing = false;
    this.draw();
  }

  // As wide as the heading, and as most texts.
  private width(column: Column, at: number): number {
    if (at === 0) return FIRST;
    const heading = (column.term ? 62 : 26) + column.title.length * 7.2;
    if (unitOf(column)) return Math.max(84, heading);
    let longest = 0;
    for (let row = 0; row < Math.min(SAMPLE, this.data.rows); row += 1) {
      longest = Math.max(longest, String(this.data.at(column, row) ?? "").length);
    }
    return Math.max(heading, Math.min(200, 20 + longest * (column.kind === "code" ? 7.6 : 7)));
  }

  private heading(column: Column): HTMLElement {
    const isSorted = this.sort.column === column;
    const arrow = isSorted ? (this.sort.isDown ? " ▾" : " ▴") : "";
    const made = make("div", {
      role: "columnheader",
      class: unitOf(column) ? "n" : null,
      "aria-sort": isSorted ? (this.sort.isDown ? "descending" : "ascending") : null,
    }, button(`${column.title}${arrow}`, () => this.sortBy(column)));
    if (column.term) {
      const to = encoded(column.term.replaceAll(" ", "-"));
      made.append(make("a", { class: "term", href: `#term-${to}`, "aria-label": `What “${column.term}” means` }, "?"));
    }
    return made;
  }

  private draw(): void {
    const items = this.virtual.getVirtualItems();
    this.body.style.height = `${this.virtual.getTotalSize()}px`;
    const selected = state.get("op");
    this.body.replaceChildren(...items.map(({ index, start }) => {
      const row = this.rows[index];
      const isSelected = selected !== null && this.data.text(this.key, row) === selected;
      const made = make("div", {
        role: "row", id: `${this.block.id}-row-${index}`, "data-at": index, "aria-rowindex": index + 2,
        "aria-selected": isSelected,
        class: index === this.active ? "active" : null,
      }, ...this.columns.map((column, at) => this.cell(column, row, at)));
      made.style.transform = `translateY(${start}px)`;
      return made;
    }));
    if (this.active >= 0) {
      this.grid.setAttribute("aria-activedescendant", `${this.block.id}-row-${this.active}`);
    } else this.grid.removeAttribute("aria-activedescendant");
  }

  private cell(column: Column, row: number, at: number): HTMLElement {
    const value = this.data.at(column, row);
    const unit = unitOf(column);
    const attributes = { role: "gridcell", "data-label": column.title };
    if (value === null || value === "") {
      return make("div", { ...attributes, class: unit ? "n quiet none" : "quiet none" }, value === null ? "–" : "");
    }
    if (unit) {
      const figure = Number(value);
      const shown = [quantity(figure, unit), exact(figure, unit)];
      if (state.get("figures")) shown.reverse();
      return make("div", { ...attributes, class: figure ? "n" : "n quiet", title: shown[1] }, shown[0]);
    }
    const shown = cut(String(value), at === 0 ? 90 : 60);
    return make("div", { ...attributes, class: at === 0 ? "first" : null, title: cut(String(value), 2000) },
      column.kind === "code" || at === 0 ? make("code", {}, shown) : shown);
  }

  private save(): void {
    download(`${this.block.id}.csv`, "text/csv", this.data.csv(this.data.columns, this.rows));
  }
}

export function beginTables(): void {
  drawer<BigTable>("big_table", async (figure, block) => {
    const view = new TableView(block, new TableData(block, await unpack(block.packed.data)));
    const name = block.key ?? "op_id";
    if (!tables.has(name)) tables.set(name, view);
    figure.append(view.element);
    view.begin();
  });
  key(["/"], "Filter the ops", () => {
    void drawFirst("big_table").then(() => {
      const figure = document.querySelector(".scripted.big_table");
      const tab = figure?.closest(".tab");
      if (tab) state.follow(tab.id);
      tables.get("op_id")?.focusQuery();
    });
  });
}
