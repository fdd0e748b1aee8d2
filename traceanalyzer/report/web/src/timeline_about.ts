// What the timeline says of an event, and of a range.

import { make } from "./dom";
import { count, cut, duration } from "./format";
import { encoded } from "./state";
import { type Events, laneOf, type Sum, sums } from "./timeline_data";
import type { View } from "./timeline_detail";

const KINDS: Record<string, string> = {
  step: "step", compute: "kernel", copy: "transfer", host_op: "CPU op", input: "input pipeline",
  launch: "kernel launch", runtime: "TensorFlow runtime", program: "your program",
  wait: "waiting for the device", call: "waiting for a function",
  unplaced: "op of unknown placement", preparation: "tracing and compiling",
};
const LEGEND = [
  "compute", "copy", "host_op", "unplaced", "input", "preparation", "launch", "runtime", "program",
];
const NAMES_SUMMED = 6;

/** Returns the legend of the kinds that a timeline has. */
export function legendOf({ names, what }: Events): HTMLElement {
  const kinds = new Set(Array.from(what, (name) => names.kind[name]));
  const used = new Set(Array.from(kinds, (kind) => names.kinds[kind]));
  return make("ul", { class: "legend" }, ...LEGEND.filter((kind) => used.has(kind)).map((kind) =>
    make("li", {}, make("span", { class: `swatch ${kind}` }), KINDS[kind])));
}

/** Returns what there is to say about an event. */
export function aboutEvent(data: Events, event: number): Node[] {
  const what = data.what[event];
  const kind = data.names.kinds[data.names.kind[what]];
  const kindName = KINDS[kind] ?? kind;
  const many = data.count(event);
  const name = data.names.name(what);
  const lane = data.lanes[laneOf(data.lanes, event)];
  const took = (data.end[event] - data.start[event]) / data.perUs;
  const parts: Node[] = [
    make("span", { class: `swatch ${kind}` }),
    make("code", { title: name ? cut(name, 2000) : null }, many > 1
      ? `${count(many)} events, merged` : cut(name ?? kindName, 110)),
    make("span", {}, kindName),
    make("b", {}, duration(took)),
    make("span", { class: "quiet" }, `at ${duration(data.start[event] / data.perUs)} · `
      + cut([lane.name, lane.device].filter(Boolean).join(" · "), 60)),
  ];
  const id = data.names.opId(what);
  if (id) {
    parts.push(make("a", { href: `#op-${encoded(id)}` },
      `op ${cut(data.names.op(what) ?? "", 60)}`));
  }
  return parts.flatMap((part) => [part, document.createTextNode(" ")]);
}

/** Returns what the events within a range add up to, and what can be done with the range. */
export function aboutRange(data: Events, range: View, ...actions: Node[]): Node[] {
  const say = (units: number): string => duration(units / data.perUs);
  const title = make("p", {}, make("b", {}, `Range of ${say(range.to - range.from)}`),
    ` from ${say(range.from)}: time of all threads and streams together `,
    ...actions.flatMap((action) => [action, " "]));
  const rows = (by: "kind" | "name", most: number): HTMLElement => {
    const found = sums(data, range.from, range.to, by).slice(0, most);
    return sumTable(by === "kind" ? "Kind" : "Name", found, say);
  };
  return [title, make("div", { class: "pair" }, rows("kind", Infinity), rows("name", NAMES_SUMMED))];
}

function sumTable(title: string, found: Sum[], say: (units: number) => string): HTMLElement {
  const heads = [title, "Events", "Time"].map((text, at) =>
    make("th", { class: at ? "n" : null, scope: "col" }, text));
  const rows = found.map((sum) => make("tr", {},
    make("td", {}, make("span", { class: `swatch ${sum.kind}` }), " ",
      title === "Kind" ? (KINDS[sum.label] ?? sum.label) : make("code", {}, cut(sum.label, 60))),
    make("td", { class: "n" }, count(sum.events)),
    make("td", { class: "n" }, say(sum.units))));
  return make("table", { class: "rows" }, make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows));
}
