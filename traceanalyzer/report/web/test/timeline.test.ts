import { describe, expect, it } from "vitest";
import { eventAt, type Events, firstBeyond, laneOf, namesWith, nextWanted, sums } from "../src/timeline_data";
import { detail, firstView, moment, rangeOf, ticks } from "../src/timeline_detail";

type Made = [from: number, to: number, what: number];

// Lanes of events; names 0: kernel `sgemm`, 1: transfer, 2: raw `ExecutorState::Process`.
function made(...lanes: Made[][]): Events {
  const all = lanes.flat();
  let from = 0;
  return {
    rows: all.length,
    perUs: 1,
    last: Math.max(...all.map(([, to]) => to)),
    start: Float64Array.from(all, ([a]) => a),
    end: Float64Array.from(all, ([, b]) => b),
    what: all.map(([, , what]) => what),
    count: () => 1,
    lanes: lanes.map((events) => {
      const lane = {
        host: "h", name: "l", kind: "stream" as const, rows: events.length, events_total: 0,
        from, to: from + events.length,
        reach: events.some(([, b], k) => k && b < events[k - 1][1]) ? Math.max(...events.map(([a, b]) => b - a)) : 0,
      };
      from = lane.to;
      return lane;
    }),
    names: {
      rows: 3, kinds: ["compute", "copy", "runtime"], kind: [0, 1, 2],
      name: (what) => ["sgemm", "MemcpyH2D", "ExecutorState::Process"][what],
      opId: (what) => (what ? null : "ab"), op: (what) => (what ? null : "dense/MatMul"),
    },
    arrows: new Map(),
  };
}

const nested = made([[0, 100, 2], [10, 20, 0], [30, 40, 0]], [[5, 15, 1], [50, 60, 1]]);

describe("events by time and name", () => {
  it("finds the innermost event at a moment", () => {
    expect(eventAt(nested, nested.lanes[0], 15, 1)).toBe(1);
    expect(eventAt(nested, nested.lanes[0], 70, 1)).toBe(0);
    expect(eventAt(nested, nested.lanes[1], 30, 1)).toBe(-1);
  });
  it("begins with events that reach into the view", () => {
    expect(firstBeyond(nested, nested.lanes[0], 35)).toBe(0);
    expect(firstBeyond(nested, nested.lanes[1], 40)).toBe(4);
  });
  it("knows the lane of an event", () => expect([0, 2, 3, 4].map((k) => laneOf(nested.lanes, k))).toEqual([0, 0, 1, 1]));
  it("finds raw names, ops and kinds", () => {
    expect(namesWith(nested, "executorstate").events).toBe(1);
    expect(namesWith(nested, "dense/").events).toBe(2);
    expect(namesWith(nested, "copy").events).toBe(2);
  });
  it("walks matches by time across lanes", () => {
    const isWanted = Uint8Array.from([1, 1, 0]);
    const walked = [];
    for (let k = nextWanted(nested, isWanted, -1, -1, true); k >= 0;) {
      walked.push(k);
      k = nextWanted(nested, isWanted, nested.start[k], k, true);
    }
    expect(walked).toEqual([3, 1, 2, 4]);
    expect(nextWanted(nested, isWanted, 50, 4, false)).toBe(2);
  });
  it("adds up a range, events cut at its ends", () => {
    expect(sums(nested, 0, 15, "kind").map(({ label, units }) => [label, units]))
      .toEqual([["runtime", 15], ["copy", 10], ["compute", 5]]);
    expect(sums(nested, 45, 55, "name").map(({ label }) => label)).toEqual(["ExecutorState::Process", "MemcpyH2D"]);
  });
});

describe("level of detail", () => {
  const many = made(Array.from({ length: 10_000 }, (_, k): Made => [k * 10, k * 10 + 5, k % 2]));
  it("merges what is narrower than a pixel", () => {
    const { boxes } = detail(many, many.lanes[0], { from: 0, to: 100_000 }, 100, null, null);
    expect(boxes.length).toBeLessThanOrEqual(100);
    expect(boxes.every((box) => box.isMerged)).toBe(true);
    expect(boxes.reduce((sum, box) => sum + box.width, 0)).toBe(100);
  });
  it("draws each event where there is room", () => {
    const { boxes } = detail(many, many.lanes[0], { from: 0, to: 100 }, 1000, null, null);
    expect(boxes.filter((box) => !box.isMerged)).toHaveLength(11);
    expect(boxes[1]).toMatchObject({ x: 100, width: 50, event: 1 });
  });
  it("shows a match before what took longer", () => {
    const wanted = Uint8Array.from([0, 1, 0]);
    const { boxes } = detail(many, many.lanes[0], { from: 0, to: 100_000 }, 100, wanted, null);
    expect(boxes.every((box) => box.isWanted)).toBe(true);
  });
  it("marks the events of an op", () => {
    const { marks } = detail(many, many.lanes[0], { from: 0, to: 100 }, 1000, null, Uint8Array.from([1, 0, 0]));
    expect(marks.slice(0, 2)).toEqual([[0, 50], [200, 50]]);
  });
});

it("writes round times with as many decimals as distinguish them", () => {
  expect(ticks({ from: 0, to: 1000 }, 1, 500).map(([at]) => at + 0)).toEqual([0, 500, 1000]);
  expect(moment(1500, 500)).toBe("1.5\u00a0ms");
  expect(moment(0, 0.5)).toBe("0.0\u00a0µs");
});

it("begins with a few steps in the middle of the run", () => {
  const data = made(Array.from({ length: 9 }, (_, k): Made => [k * 100, k * 100 + 90, 0]));
  const whole = { from: 0, to: 890 };
  expect(firstView(data, whole)).toBe(whole); // no lane of steps
  data.lanes[0].kind = "steps";
  const { from, to } = firstView(data, whole);
  expect([Math.round(from), Math.round(to)]).toEqual([294, 596]);
});

it("reads ranges of links", () => {
  expect(rangeOf("1.5-3")).toEqual([1.5, 3]);
  expect([null, "", "3-1", "a-b"].map(rangeOf)).toEqual([null, null, null, null]);
});
