// Every op of the run as columns: what they are called, how they are sorted, and as CSV.

const OPS_TEXT = "text";
// In the order in which they are shown. `width` is in rem, `query` how the filter calls a column.
const OPS_COLUMNS = [
  { name: "name", heading: "Op", kind: OPS_TEXT, width: 19, query: ["name"] },
  { name: "type", heading: "Type", kind: OPS_TEXT, width: 8.5, query: ["type"] },
  { name: "cause", heading: "Cause", kind: OPS_TEXT, width: 11, query: ["cause"], isId: true,
    empty: "none needed" },
  { name: "certainty", heading: "Certainty", kind: OPS_TEXT, width: 5.75, query: ["certainty"],
    empty: "–" },
  { name: "placement", heading: "Placement", kind: OPS_TEXT, width: 5, query: ["placement", "on"] },
  { name: "host_self_us", heading: "Host time", kind: "time", width: 6, query: ["host"] },
  { name: "host_total_us", heading: "Host time with callees", kind: "time", width: 11,
    query: ["total"], isHidden: true },
  { name: "exposed_us", heading: "GPU waits", kind: "time", width: 6, query: ["waits"] },
  { name: "occurrences", heading: "Runs", kind: "count", width: 5, query: ["runs"] },
  { name: "kernel_us", heading: "Kernel time", kind: "time", width: 7, query: ["kernel"] },
  { name: "kernels", heading: "Kernels", kind: "count", width: 5.5, query: ["kernels"],
    isHidden: true },
  { name: "h2d_bytes", heading: "To device", kind: "bytes", width: 6.5, query: ["to-device"] },
  { name: "d2h_bytes", heading: "To host", kind: "bytes", width: 6.5, query: ["to-host"] },
  { name: "bytes", heading: "Copied", kind: "bytes", width: 6.5, query: ["bytes"],
    isHidden: true },
  { name: "copy_us", heading: "Copy time", kind: "time", width: 6.5, query: ["copy"],
    isHidden: true },
  { name: "input_types", heading: "Input types", kind: OPS_TEXT, width: 10,
    query: ["dtype", "input"] },
  { name: "source", heading: "Source", kind: OPS_TEXT, width: 14, query: ["source", "file"] },
  { name: "function", heading: "Function", kind: OPS_TEXT, width: 14, query: ["function"],
    isHidden: true },
  { name: "requested_device", heading: "Requested device", kind: OPS_TEXT, width: 14, query: ["asked"],
    isHidden: true, empty: "no device" },
  { name: "device", heading: "Device", kind: OPS_TEXT, width: 14, query: ["device"],
    isHidden: true },
  { name: "role", heading: "Role", kind: OPS_TEXT, width: 8, query: ["role"], isHidden: true },
  { name: "in_input_pipeline", heading: "Input pipeline", kind: OPS_TEXT, width: 8,
    query: ["pipeline"], isHidden: true },
  { name: "is_eager", heading: "Eager", kind: OPS_TEXT, width: 5, query: ["eager"],
    isHidden: true },
  { name: "host", heading: "Host", kind: OPS_TEXT, width: 9, query: ["machine"], isHidden: true },
  { name: "op_id", heading: "Op id", kind: OPS_TEXT, width: 9, query: ["id"], isHidden: true },
];
const OPS_SEARCHED = ["name", "type", "function", "source"];

// --- the table ---------------------------------------------------------------------------------

/** The ops as columns: texts by code, figures by value, and rows in any order. */
class OpsData {
  /** `reasons` tells why bytes and waits are unknown, where that is known. */
  constructor(table, reasons = {}) {
    this.rows = table.rows;
    this.reasons = reasons;
    this.packed = table.columns;
    this.made = new Map();
    this.orders = new Map();
    this.words = OPS_SEARCHED.map((name) => this.texts({ name }));
  }

  /** Returns a value by name, made once. */
  once(key, build) {
    if (!this.made.has(key)) this.made.set(key, build());
    return this.made.get(key);
  }

  /** Returns a column of texts as the filter looks at it. */
  texts({ name, isId = false }) {
    return this.once(`texts ${name}`, () => {
      const { raw, texts } = this.packed[name];
      const lower = texts.map((text) => text.toLowerCase());
      return { codes: raw, lower: isId ? lower.map((text) => text.replaceAll("_", " ")) : lower };
    });
  }

  /** Returns a column of figures, NaN where unknown. */
  figures({ name }) {
    return this.once(`figures ${name}`, () => {
      if (name === "bytes") return this.sum("h2d_bytes", "d2h_bytes");
      if (name === "host_total_us") return this.sum("host_self_us", "host_nested_us");
      const { raw, per, offset, isNone } = this.packed[name];
      return Float64Array.from(raw, (value, row) => (isNone(row) ? NaN : (offset + value) / per));
    });
  }

  sum(one, other) {
    const b = this.figures({ name: other });
    return this.figures({ name: one }).map((value, row) => value + b[row]);
  }

  /** Returns a cell: a text, a number, or null where it is unknown. */
  at(column, row) {
    if (column.kind === OPS_TEXT) return this.packed[column.name].at(row);
    const value = this.figures(column)[row];
    return Number.isNaN(value) ? null : value;
  }

  /** Returns why cells of a column are unknown, or nothing where that is not known. */
  whyUnknown(column) {
    if (column.kind === "bytes") return this.reasons.bytes;
    return column.name === "exposed_us" ? this.reasons.waits : "";
  }

  /** Returns whether no row of a column holds anything: neither a text nor a figure above 0. */
  isBare(column) {
    if (column.kind === OPS_TEXT) return this.packed[column.name].texts.length === 0;
    return !this.figures(column).some((value) => value > 0);
  }

  /** Returns all rows in the order of a column; what is unknown or empty comes last either way. */
  order(column, isDown) {
    const key = `${isDown ? "-" : ""}${column?.name ?? ""}`;
    if (!this.orders.has(key)) this.orders.set(key, this.sorted(column, isDown));
    return this.orders.get(key);
  }

  sorted(column, isDown) {
    const all = Uint32Array.from({ length: this.rows }, (_, row) => row);
    if (!column) return all;
    const keys = column.kind === OPS_TEXT ? this.ranks(column) : this.figures(column);
    const known = all.filter((row) => keys[row] > -Infinity);
    // A row's place tells equals apart, so that they stay in the order worth reading.
    const rising = (a, b) => keys[a] - keys[b] || a - b;
    known.sort(isDown ? (a, b) => keys[b] - keys[a] || a - b : rising);
    const empty = all.filter((row) => keys[row] === -Infinity);
    const unknown = all.filter((row) => Number.isNaN(keys[row]));
    const sorted = new Uint32Array(this.rows);
    sorted.set(known);
    sorted.set(empty, known.length);
    sorted.set(unknown, known.length + empty.length);
    return sorted;
  }

  // Texts are stored in sorted order, except ids.
  ranks({ name }) {
    return this.once(`ranks ${name}`, () => {
      const { raw, texts, isNone } = this.packed[name];
      const places = Float64Array.from(texts, (text, code) => (text ? code : -Infinity));
      if (name === "op_id") {
        const sorted = [...texts.keys()].sort((a, b) => (texts[a] < texts[b] ? -1 : 1));
        sorted.forEach((code, place) => { places[code] = place; });
      }
      return Float64Array.from(raw, (code, row) => (isNone(row) ? NaN : places[code]));
    });
  }

  /** Returns the row of an op, or -1. */
  rowOf(opId) {
    const { raw, texts } = this.packed.op_id;
    const code = texts.indexOf(opId);
    return code < 0 ? -1 : raw.indexOf(code);
  }
}

const opsGrammar = (() => {
  const fields = new Map();
  for (const column of OPS_COLUMNS) {
    column.query.forEach((name, place) => fields.set(name, { ...column, isAlias: place > 0 }));
  }
  fields.set("finding", { name: "findings", kind: OPS_TEXT, heading: "Finding’s id" });
  return { fields, plain: { time: "host", bytes: "bytes" } };
})();

// --- comma-separated values --------------------------------------------------------------------

/**
 * Returns rows as CSV (RFC 4180), figures in their plain units. A text that a spreadsheet would
 * take for a formula has a `'` before it.
 */
function opsAsCsv(data, columns, rows) {
  const cell = (column, row) => {
    const value = data.at(column, row);
    if (value === null) return "";
    return column.kind === OPS_TEXT ? csvText(value) : String(Number(value.toFixed(3)));
  };
  const lines = [columns.map((column) => csvText(column.name)).join(",")];
  for (const row of rows) lines.push(columns.map((column) => cell(column, row)).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function csvText(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
