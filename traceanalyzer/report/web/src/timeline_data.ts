// The events of the timeline, found by time and by name, and what they add up to.

import type { EventLane, Timeline } from "./blocks";
import { type PackedColumn, unpack } from "./packed";

/** Events of a lane are `from` to `to`; none lasts longer than `reach` if some overlap. */
export interface Lane extends EventLane {
  from: number;
  to: number;
  reach: number;
}

/** What events can be: kind, name and op, each by its row. */
export interface Names {
  rows: number;
  kinds: string[];
  kind: ArrayLike<number>;
  name(what: number): string | null;
  opId(what: number): string | null;
  op(what: number): string | null;
}

/** `start` and `end` are in units, `perUs` of them a microsecond; events are by lane, then start. */
export interface Events {
  rows: number;
  perUs: number;
  last: number;
  start: Float64Array;
  end: Float64Array;
  what: ArrayLike<number>;
  count(event: number): number;
  lanes: Lane[];
  names: Names;
  /** For each event, those that an arrow joins it with: [from, to]. */
  arrows: Map<number, [number, number][]>;
}

export async function openEvents(block: Timeline): Promise<Events> {
  const { events: packed, arrows } = block;
  const [events, names, joined] = await Promise.all([
    unpack(packed.events.data),
    unpack(packed.names.data),
    arrows ? unpack(arrows.data) : null,
  ]);
  const { gap, duration, what, count } = events.columns;
  const times = timesOf(packed.lanes, gap, duration, events.rows);
  return {
    ...times,
    rows: events.rows,
    perUs: 1000 / packed.unit_ns,
    what: what.raw,
    count: (event) => count.number(event),
    names: {
      rows: names.rows,
      kinds: names.columns.kind.texts ?? [],
      kind: names.columns.kind.raw,
      name: (row) => names.columns.name.text(row),
      opId: (row) => names.columns.op_id.text(row),
      op: (row) => names.columns.op.text(row),
    },
    arrows: arrowsOf(joined?.columns.from, joined?.columns.to),
  };
}

type Steps = Pick<PackedColumn, "raw" | "head">;

// Each event begins a gap after the end of the one before it in its lane.
function timesOf(
  packed: EventLane[], gap: Steps, duration: Steps, rows: number,
): Pick<Events, "start" | "end" | "lanes" | "last"> {
  const start = new Float64Array(rows);
  const end = new Float64Array(rows);
  const lanes: Lane[] = [];
  let row = 0;
  let last = 0;
  for (const lane of packed) {
    const from = row;
    const to = row + lane.rows;
    let before = 0;
    let longest = 0;
    let overlaps = false;
    for (; row < to; row += 1) {
      start[row] = before + gap.raw[row] + gap.head.offset;
      before = start[row] + duration.raw[row] + duration.head.offset;
      end[row] = before;
      longest = Math.max(longest, before - start[row]);
      last = Math.max(last, before);
      if (row > from && end[row] < end[row - 1]) overlaps = true;
    }
    lanes.push({ ...lane, from, to, reach: overlaps ? longest : 0 });
  }
  return { start, end, lanes, last };
}

function arrowsOf(from?: PackedColumn, to?: PackedColumn): Events["arrows"] {
  const found: Events["arrows"] = new Map();
  if (!from || !to) return found;
  for (let row = 0; row < from.raw.length; row += 1) {
    const pair: [number, number] = [from.number(row), to.number(row)];
    for (const event of pair) found.set(event, [...(found.get(event) ?? []), pair]);
  }
  return found;
}

/** Returns the lane of an event. */
export function laneOf(lanes: Lane[], event: number): number {
  let low = 0;
  let high = lanes.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lanes[middle].to <= event) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the first event of a lane that may reach beyond a moment: none before it does. */
export function firstBeyond({ start, end }: Events, { from, to, reach }: Lane, moment: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reach ? start[middle] < moment - reach : end[middle] < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the event of a lane at a moment, or the nearest within some units; -1 for none. */
export function eventAt(data: Events, lane: Lane, moment: number, within: number): number {
  let best = -1;
  let nearest = within;
  for (let k = firstBeyond(data, lane, moment - within); k < lane.to; k += 1) {
    if (data.start[k] > moment + within) break;
    const off = Math.max(data.start[k] - moment, moment - data.end[k], 0);
    // Of several at that moment, the last to begin is the innermost.
    if (off <= nearest) {
      nearest = off;
      best = k;
    }
  }
  return best;
}

/** Returns which names, of events, ops or kinds, hold a text, and how many events these are. */
export function namesWith(data: Events, text: string): { isWanted: Uint8Array; events: number } {
  const wanted = text.toLowerCase();
  const { names } = data;
  return chosen(data, (what) => [names.name(what), names.op(what), names.kinds[names.kind[what]]]
    .some((name) => name?.toLowerCase().includes(wanted) ?? false));
}

/** Returns which names are of an op. */
export const namesOf = (data: Events, opId: string): { isWanted: Uint8Array; events: number } =>
  chosen(data, (what) => data.names.opId(what) === opId);

function chosen(data: Events, is: (what: number) => boolean): { isWanted: Uint8Array; events: number } {
  const isWanted = Uint8Array.from({ length: data.names.rows }, (_, what) => Number(is(what)));
  let events = 0;
  for (let k = 0; k < data.rows; k += 1) if (isWanted[data.what[k]]) events += data.count(k);
  return { isWanted, events };
}

/** Returns the wanted event that begins next after one, or before it; -1 for none. */
export function nextWanted(
  data: Events, isWanted: Uint8Array, moment: number, event: number, forward: boolean,
): number {
  let best = -1;
  for (let k = 0; k < data.rows; k += 1) {
    if (!isWanted[data.what[k]]) continue;
    const at = data.start[k];
    const isBeyond = forward
      ? at > moment || (at === moment && k > event)
      : at < moment || (at === moment && k < event);
    if (!isBeyond) continue;
    if (best < 0) best = k;
    else if (forward ? at < data.start[best] : at >= data.start[best]) best = k;
  }
  return best;
}

export interface Sum {
  label: string;
  kind: string;
  events: number;
  units: number;
}

/** Adds up the events within a range by kind, or by name: most time first. */
export function sums(data: Events, from: number, to: number, by: "kind" | "name"): Sum[] {
  const found = new Map<string, Sum>();
  for (const lane of data.lanes) {
    if (lane.kind === "steps") continue;
    for (let k = firstBeyond(data, lane, from); k < lane.to && data.start[k] < to; k += 1) {
      const units = Math.min(data.end[k], to) - Math.max(data.start[k], from);
      if (units < 0 || (units === 0 && data.end[k] > data.start[k])) continue;
      const what = data.what[k];
      const kind = data.names.kinds[data.names.kind[what]];
      const label = by === "kind" ? kind : data.names.name(what);
      if (label === null) continue;
      const sum = found.get(label) ?? { label, kind, events: 0, units: 0 };
      sum.events += data.count(k);
      sum.units += units;
      found.set(label, sum);
    }
  }
  return [...found.values()].sort((a, b) => b.units - a.units);
}
