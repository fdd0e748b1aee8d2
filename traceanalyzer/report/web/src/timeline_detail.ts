// The boxes of a lane at a scale, in which events narrower than a pixel are merged; axis and view.

import { TIMES } from "./format";
import { type Events, firstBeyond, type Lane } from "./timeline_data";

export interface View {
  from: number;
  to: number;
}

/** What is drawn: an event, or a run of pixels that look alike, most of which one event took. */
export interface Box {
  kind: number;
  x: number;
  width: number;
  share: number; // of its pixels that events cover
  event: number;
  isWanted: boolean;
  isMerged: boolean;
}

/** Where the events are whose op is selected: [x, width]. */
export type Mark = [number, number];

const STEPS = 3; // that are shown first
const WIDE = 1.5; // pixels from which an event is drawn as itself
export const FAINT = 0.25; // share of a pixel below which it is drawn pale

/** Returns the boxes of a lane, and the marks of the events of an op; reads only what is in view. */
export function detail(
  data: Events, lane: Lane, view: View, width: number, isWanted: Uint8Array | null,
  isMarked: Uint8Array | null,
): { boxes: Box[]; marks: Mark[] } {
  const { start, end, what, names } = data;
  const scale = width / (view.to - view.from);
  const boxes: Box[] = [];
  const marks: Mark[] = [];
  let pixel = -1; // that is being filled
  let took = 0;
  let best = -1;
  let most = -1;
  let hasWanted = false;
  const flush = (): void => {
    if (pixel < 0) return;
    addPixel(boxes, names.kind[what[best]], pixel, Math.min(1, took), best, hasWanted);
    pixel = -1;
  };
  for (let k = firstBeyond(data, lane, view.from); k < lane.to; k += 1) {
    if (start[k] > view.to) break;
    if (end[k] < view.from) continue;
    const a = (start[k] - view.from) * scale;
    const b = (end[k] - view.from) * scale;
    const wanted = isWanted !== null && isWanted[what[k]] === 1;
    if (isMarked?.[what[k]]) addMark(marks, a, b, width);
    if (b - a >= WIDE) {
      flush();
      const x = Math.max(a, -2);
      boxes.push({
        kind: names.kind[what[k]], x, width: Math.min(b, width + 2) - x, share: 1, event: k,
        isWanted: wanted, isMerged: false,
      });
      continue;
    }
    const at = Math.max(0, Math.floor(a));
    if (at !== pixel) {
      flush();
      pixel = at;
      took = 0;
      most = -1;
      hasWanted = false;
    }
    took += b - a;
    // What was searched for shows before what took longer.
    const weight = b - a + (wanted ? 10 : 0);
    if (weight > most) {
      most = weight;
      best = k;
    }
    hasWanted ||= wanted;
  }
  flush();
  return { boxes, marks };
}

// Pixels side by side that look the same are one box.
function addPixel(
  boxes: Box[], kind: number, x: number, share: number, event: number, isWanted: boolean,
): void {
  const last = boxes.at(-1);
  if (last?.isMerged && last.kind === kind && last.x + last.width === x
    && last.isWanted === isWanted && last.share < FAINT === share < FAINT) {
    last.width += 1;
    return;
  }
  boxes.push({ kind, x, width: 1, share, event, isWanted, isMerged: true });
}

function addMark(marks: Mark[], a: number, b: number, width: number): void {
  const x = Math.max(0, a);
  const wide = Math.max(1, Math.min(b, width) - x);
  const last = marks.at(-1);
  if (last && x - (last[0] + last[1]) < 1.5) last[1] = Math.max(last[1], x + wide - last[0]);
  else marks.push([x, wide]);
}

/** Returns round times for an axis: [place in units, text]. */
export function ticks(view: View, perUs: number, width: number): [number, string][] {
  const length = (view.to - view.from) / perUs;
  const rough = length / Math.max(2, Math.floor(width / 110));
  const power = 10 ** Math.floor(Math.log10(rough));
  const pitch = [1, 2, 5, 10].map((f) => f * power).find((p) => p >= rough * 0.999)!;
  const found: [number, string][] = [];
  const first = Math.ceil(view.from / perUs / pitch - 1e-9);
  const last = Math.floor(view.to / perUs / pitch + 1e-9);
  for (let k = first; k <= last && found.length < 60; k += 1) {
    found.push([k * pitch * perUs, moment(k * pitch, pitch)]);
  }
  return found;
}

/** Returns a moment with as many decimals as tell it from its neighbours. */
export function moment(us: number, pitch: number): string {
  const size = Math.max(Math.abs(us), pitch);
  const [unit, factor] = TIMES.findLast(([, f]) => size >= f) ?? TIMES[0];
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(pitch / factor) - 1e-9)));
  return `${(us / factor).toFixed(decimals)}\u00a0${unit}`;
}

/** Returns a range of microseconds from a link or the address; null if it holds none. */
export function rangeOf(text: string | null): [number, number] | null {
  const found = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [Number(found[1]), Number(found[2])];
  return to > from ? [from, to] : null;
}

/** Returns what is shown first: a few steps in the middle of the run, or all of a run without. */
export function firstView(data: Events, whole: View): View {
  const lane = data.lanes.find(({ kind, to, from }) => kind === "steps" && to > from);
  if (!lane) return whole;
  const begin = lane.from + Math.max(0, Math.floor((lane.to - lane.from - STEPS) / 2));
  let end = Math.min(lane.to, begin + STEPS) - 1;
  const length = data.end[begin] - data.start[begin];
  // Steps that are far apart are shown one at a time.
  if (data.end[end] - data.start[begin] > 2 * STEPS * length) end = begin;
  const [from, to] = [data.start[begin], data.end[end]];
  const margin = (to - from) * 0.02;
  return to > from ? { from: Math.max(0, from - margin), to: Math.min(whole.to, to + margin) } : whole;
}
