import { describe, expect, it } from "vitest";
import { type Field, FAILS, HOLDS, leftOut, matching, QueryError, readQuery, type Source, UNKNOWN } from "../src/query";

const field = (name: string, kind: Field["kind"]): Field => ({ name, kind, title: name });
const [type, host, bytes, share] = [field("type", "text"), field("host", "us"), field("h2d", "bytes"), field("share", "share")];
const grammar = {
  fields: new Map([type, host, bytes, share].map((one) => [one.name, one])),
  plain: { us: host, bytes },
};
const TYPES = { codes: [0, 1, 255, 0], lower: ["cast", "matmul"] };
const source: Source = {
  rows: 4,
  words: [TYPES],
  texts: () => TYPES,
  figures: ({ name }) => Float64Array.from(name === "host" ? [500, 2000, NaN, 0] : [1e6, 0, 5, NaN]),
};
const rows = (query: string): number[] =>
  [...matching(readQuery(query, grammar), source)].flatMap((judged, row) => (judged === HOLDS ? [row] : []));

describe("queries", () => {
  it.each<[string, number[]]>([
    ["", [0, 1, 2, 3]],
    ["cast", [0, 3]],
    ["CAST", [0, 3]],
    ["type:mat", [1]],
    ["type=cast", [0, 3]],
    ["-type:cast", [1]],
    ["host>1ms", [1]],
    [">1ms", [1]],
    ["<=500us", [0, 3]],
    ["h2d>=1MB", [0]],
    [">0.5MB", [0]],
    ["host=unknown", [2]],
    ["type=unknown", [2]],
    ["cast host>0", [0]],
    ["-cast", [1, 2]],
    ['"cast"', [0, 3]],
    ["-host>1ms", [0, 3]],
  ])("%s", (query, expected) => expect(rows(query)).toEqual(expected));

  it("counts what is left out because it is unknown", () => {
    const kept = matching(readQuery("-type:cast", grammar), source);
    expect([...kept]).toEqual([FAILS, HOLDS, UNKNOWN, FAILS]);
    expect(leftOut(kept)).toBe(1);
  });

  it.each([
    ["nope:1", "there is no field “nope”"],
    ["host:1ms", "write host>1ms"],
    ["host>1MB", "is not a time"],
    ["host>5", "is not a time"],
    ["type>cast", "write type:cast"],
    ['type:"a', "the quote is not closed"],
    [">many", "is not a figure"],
    [">5", "a unit or a field is missing"],
    ["share>1ms", "write share>10%"],
    ["type:", "a value is missing"],
  ])("refuses %s and says what to write", (query, said) => {
    expect(() => readQuery(query, grammar)).toThrow(QueryError);
    expect(() => readQuery(query, grammar)).toThrow(said);
  });
});
