import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { unpack } from "../src/packed";
import { HOLDS, matching, readQuery } from "../src/query";
import { TableData } from "../src/table_data";

// Written by Python: `tests/report/test_packed.py` keeps it current.
const file = new URL("../../../../tests/report/documents/packed.json", import.meta.url);
const packed = JSON.parse(readFileSync(file, "utf8")) as { data: string; values: Record<string, unknown[]> };
const columns = [
  { name: "name", title: "Op", kind: "code" as const },
  { name: "host_us", title: "Host time", kind: "us" as const },
  { name: "bytes", title: "Bytes", kind: "bytes" as const },
];

it("opens what Python packed", async () => {
  const { rows, columns: opened } = await unpack(packed.data);
  expect(rows).toBe(packed.values.name.length);
  for (const [name, values] of Object.entries(packed.values)) {
    const column = opened[name];
    const found = values.map((_, row) => (column.texts ? column.text(row) : column.number(row)));
    expect(found).toEqual(values.map((value) => (value === null && !column.texts ? NaN : value)));
  }
});

it("filters, sorts, and writes CSV", async () => {
  const data = new TableData({ columns }, await unpack(packed.data));
  const [name, host, bytes] = data.columns;
  const down = [...data.order(host, true)].map((row) => data.at(host, row));
  expect(down).toEqual([...down].sort((a, b) => Number(b ?? -1) - Number(a ?? -1)));
  expect(down.at(-1)).toBeNull();
  expect([...data.order(bytes, false)].map((row) => data.at(bytes, row)).at(-1)).toBeNull();
  const kept = matching(readQuery("host>1ms", data.grammar), data);
  expect([...kept].filter((judged) => judged === HOLDS)).toHaveLength(1);
  const csv = data.csv([name, host], [0, 1, 2]);
  expect(csv.split("\r\n")[0]).toBe("name,host_us");
  expect(csv).toContain(`"'=HYPERLINK(""x"")"`);
  expect(data.rowOf("name", "MatMul")).toBe(0);
  expect(data.isBare(bytes)).toBe(false);
});
