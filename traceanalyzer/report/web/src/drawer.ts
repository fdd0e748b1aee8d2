// The drawer at the right: all that is known of the selected op.

import { tables } from "./big_table";
import { button, embedded, make } from "./dom";
import { drawFirst, watch } from "./figures";
import { cut, exact, quantity } from "./format";
import { key } from "./keys";
import { inflate } from "./packed";
import { encoded, state } from "./state";
import { unitOf } from "./table_data";

const panel = make("aside", { id: "drawer", "aria-label": "Selected op", tabindex: -1, hidden: true });
let details: Promise<Record<string, string>> | null = null;
let cameFrom: Element | null = null;

export function beginDrawer(): void {
  document.querySelector("main")?.after(panel);
  state.guide("op-", (id, isNew) => {
    cameFrom = document.activeElement;
    if (state.get("op") === id) void show(id);
    else state.set("op", id, isNew);
  });
  state.guide("ops-", (query, isNew) => {
    state.set("ops-table.q", query, isNew);
    state.follow("ops");
  });
  state.watch("op", (id) => void show(id));
  key(["Escape"], "Close the op", close);
  if (state.get("op")) void show(state.get("op"));
}

function close(): void {
  if (panel.hidden) return;
  state.set("op", null, true);
  if (cameFrom instanceof HTMLElement && cameFrom.isConnected) cameFrom.focus({ preventScroll: true });
}

// What jinja2 rendered for an op, escaped there.
async function detailsOf(id: string): Promise<string> {
  const packed = embedded<string>("details");
  details ??= packed
    ? inflate(packed).then((bytes) => JSON.parse(new TextDecoder().decode(bytes)) as Record<string, string>)
    : Promise.resolve({});
  return (await details)[id] ?? "";
}

async function show(id: string | null): Promise<void> {
  document.body.classList.toggle("has-drawer", id !== null);
  panel.hidden = id === null;
  if (id === null) return;
  const [html] = await Promise.all([detailsOf(id), drawFirst("big_table")]);
  if (state.get("op") !== id) return;
  const rest = make("div", { class: "drawer-blocks" });
  rest.innerHTML = html;
  const known = rowOf(id, new Set([...rest.querySelectorAll("dt")].map((term) => term.textContent ?? "")));
  const title = known.title ?? `op ${id}`;
  panel.replaceChildren(
    make("div", { class: "drawer-head" },
      make("h2", {}, make("code", { title: cut(title, 2000) }, cut(title, 200))),
      button("✕", close, { "aria-label": "Close", title: "Close (Esc)" })),
    make("p", { class: "actions" },
      ...(document.querySelector(".scripted.timeline")
        ? [button("Next in the timeline", () => void inTimeline())] : []),
      make("a", { href: `#op-${encoded(id)}`, class: "small" }, "Link to this op")),
    rest,
    known.list);
  if (!html && !known.title) {
    rest.append(make("p", { class: "note" }, "This op is not among those that this file holds."));
  }
  watch(rest);
  panel.focus({ preventScroll: true });
}

// The op's row of the table, but for what the blocks say already.
function rowOf(id: string, said: Set<string>): { title: string | null; list: HTMLElement } {
  const list = make("dl", { class: "key-values" });
  const table = tables.get("op_id")?.data;
  const row = table?.rowOf("op_id", id) ?? -1;
  if (!table || row < 0) return { title: null, list };
  for (const column of table.columns.slice(1)) {
    const value = table.at(column, row);
    if (value === null || value === "" || said.has(column.title)) continue;
    const unit = unitOf(column);
    const shown = unit
      ? make("data", { title: exact(Number(value), unit) }, quantity(Number(value), unit))
      : make(column.kind === "code" ? "code" : "span", {}, cut(String(value), 400));
    list.append(make("div", {}, make("dt", {}, column.title), make("dd", {}, shown)));
  }
  return { title: String(table.at(table.columns[0], row) ?? id), list };
}

async function inTimeline(): Promise<void> {
  const figure = document.querySelector<HTMLElement>(".scripted.timeline")!;
  const tab = figure.closest(".tab");
  if (tab) state.follow(tab.id);
  await drawFirst("timeline");
  const canvas = figure.querySelector("canvas");
  canvas?.focus({ preventScroll: true });
  canvas?.dispatchEvent(new KeyboardEvent("keydown", { key: "n" }));
}
