import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { cut, duration, quantity, share, size, visible } from "../src/format";

type Cases = Record<"duration" | "size" | "share", [number, string][]> & { visible: [string, string][] };
const file = new URL("../../../../tests/format_cases.json", import.meta.url);
const cases = JSON.parse(readFileSync(file, "utf8")) as Cases;
const plain = (text: string): string => text.replaceAll("\u00a0", " ");

describe("values are written as Python writes them", () => {
  it.each(cases.duration)("%f µs", (value, shown) => expect(plain(duration(value))).toBe(shown));
  it.each(cases.size)("%f bytes", (value, shown) => expect(plain(size(value))).toBe(shown));
  it.each(cases.share)("share %f", (value, shown) => expect(plain(share(value))).toBe(shown));
  it.each(cases.visible)("%j", (value, shown) => expect(visible(value)).toBe(shown));
});

it("has rates and counts", () => {
  expect(plain(quantity(11.2e9, "bytes_per_s"))).toBe("11.2 GB/s");
  expect(quantity(12_345, "count")).toBe("12,345");
});

it("keeps both ends of a long name", () => {
  const name = cut(`${"scope/".repeat(3000)}MatMul`, 40);
  expect(name).toHaveLength(40);
  expect(name).toMatch(/^scope\/.*….*MatMul$/);
});
