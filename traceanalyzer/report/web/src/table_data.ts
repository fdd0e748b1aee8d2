// The rows of a large table as columns: filtered, sorted, and written as CSV.

import type { BigTable, Column } from "./blocks";
import type { Unit } from "./format";
import type { Unpacked } from "./packed";
import type { Field, FieldKind, Grammar, Source, Texts } from "./query";

export type Value = string | number | null;

/** Returns the unit of a column of figures; null of a column of texts. */
export function unitOf(column: Column): Unit | null {
  const kind = column.kind ?? "text";
  return kind === "text" || kind === "code" ? null : kind;
}

export class TableData implements Source {
  readonly rows: number;
  readonly columns: Column[];
  readonly grammar: Grammar;
  readonly words: Texts[];
  private readonly made = new Map<string, unknown>();

  constructor(block: Pick<BigTable, "columns">, private readonly table: Unpacked) {
    this.rows = table.rows;
    this.columns = block.columns.filter((column) => column.name in table.columns);
    this.words = this.columns.filter((column) => !unitOf(column)).map((column) => this.texts(column));
    this.grammar = grammarOf(this.columns);
  }

  private once<T>(key: string, build: () => T): T {
    if (!this.made.has(key)) this.made.set(key, build());
    return this.made.get(key) as T;
  }

  texts({ name }: { name: string }): Texts {
    return this.once(`texts ${name}`, () => {
      const { raw, texts } = this.table.columns[name];
      return { codes: raw, lower: (texts ?? []).map((text) => text.toLowerCase()) };
    });
  }

  figures({ name }: { name: string }): Float64Array {
    return this.once(`figures ${name}`, () => {
      const column = this.table.columns[name];
      return Float64Array.from({ length: this.rows }, (_, row) => column.number(row));
    });
  }

  /** Returns a cell; null if it is unknown. */
  at(column: Column, row: number): Value {
    if (!unitOf(column)) return this.table.columns[column.name].text(row);
    const value = this.figures(column)[row];
    return Number.isNaN(value) ? null : value;
  }

  /** Returns the text of any column of the packed table, shown or not. */
  text(name: string, row: number): string | null {
    return this.table.columns[name]?.text(row) ?? null;
  }

  /** Returns the row in which a column of texts has a text; -1 if none has. */
  rowOf(name: string, text: string): number {
    const column = this.table.columns[name];
    const code = column?.texts?.indexOf(text) ?? -1;
    return code < 0 ? -1 : column.raw.indexOf(code);
  }

  /** Returns whether a column says nothing in any row. */
  isBare(column: Column): boolean {
    if (!unitOf(column)) return !this.texts(column).lower.some(Boolean);
    return !this.figures(column).some((value) => value !== 0 && !Number.isNaN(value));
  }

  /** Returns all rows in the order of a column; unknown and empty ones come last either way. */
  order(column: Column | null, isDown: boolean): Uint32Array {
    return this.once(`order ${isDown} ${column?.name}`, () => {
      const all = Uint32Array.from({ length: this.rows }, (_, row) => row);
      if (!column) return all;
      const keys = unitOf(column) ? this.figures(column) : this.ranks(column);
      const known = all.filter((row) => !Number.isNaN(keys[row]));
      // Equal rows keep the order in which they are worth reading.
      known.sort(isDown ? (a, b) => keys[b] - keys[a] || a - b : (a, b) => keys[a] - keys[b] || a - b);
      const sorted = new Uint32Array(this.rows);
      sorted.set(known);
      sorted.set(all.filter((row) => Number.isNaN(keys[row])), known.length);
      return sorted;
    });
  }

  // Texts are packed in reading order.
  private ranks({ name }: Column): Float64Array {
    const { codes, lower } = this.texts({ name });
    return Float64Array.from(codes, (code) => (lower[code] ? code : NaN));
  }

  /** Returns rows as CSV (RFC 4180); a text that a spreadsheet would compute has a `'` before it. */
  csv(columns: Column[], rows: ArrayLike<number>): string {
    const cell = (column: Column, row: number): string => {
      const value = this.at(column, row);
      if (value === null) return "";
      return typeof value === "string" ? csvText(value) : String(Number(value.toFixed(3)));
    };
    const lines = [columns.map((column) => csvText(column.name)).join(",")];
    for (const row of Array.from(rows)) lines.push(columns.map((c) => cell(c, row)).join(","));
    return `${lines.join("\r\n")}\r\n`;
  }
}

function csvText(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const KINDS: Record<Unit, FieldKind> = {
  us: "us", bytes: "bytes", bytes_per_s: "bytes", share: "share", count: "count",
};

// Columns are asked for by their name, and by that without its unit: `host_us` is also `host`.
function grammarOf(columns: Column[]): Grammar {
  const fields = new Map<string, Field>();
  const plain: Grammar["plain"] = {};
  for (const column of columns) {
    const unit = unitOf(column);
    const field: Field = { name: column.name, title: column.title, kind: unit ? KINDS[unit] : "text" };
    const short = column.name.replace(/_(us|bytes|share)$/, "");
    const names = [short, column.name].filter((name) => !fields.has(name));
    names.forEach((name, at) => fields.set(name, { ...field, isAlias: at > 0 }));
    plain[field.kind] ??= field;
  }
  return { fields, plain };
}
