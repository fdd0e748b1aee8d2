// The timeline: moved with pointer, wheel and keys, searched, and added up over a range.
//
// The address holds `time.view=FROM-TO` and `time.range=FROM-TO`, microseconds from the run's first
// event, and `time.find`, what is searched for. A link to `time-FROM-TO` leads to a range.

import type { Timeline } from "./blocks";
import { announce, button, later, make } from "./dom";
import { drawer, drawFirst } from "./figures";
import { counted } from "./format";
import { key } from "./keys";
import { state } from "./state";
import { aboutEvent, aboutRange, legendOf } from "./timeline_about";
import {
  eventAt, type Events, firstBeyond, laneOf, namesOf, namesWith, nextWanted, openEvents,
} from "./timeline_data";
import { firstView, rangeOf, type View } from "./timeline_detail";
import { AXIS, layoutOf, Painter } from "./timeline_drawing";

class TimelineView {
  private view: View;
  private range: View | null = null;
  private selected = -1;
  private hovered = -1;
  private isWanted: Uint8Array | null = null;
  private isMarked: Uint8Array | null = null;
  private isDue = false;
  private readonly whole: View;
  private readonly first: View;
  private readonly canvas = make("canvas", {
    tabindex: 0, role: "application", "aria-roledescription": "timeline",
    "aria-label": "Timeline. Left and right arrows go from event to event, up and down from row to "
      + "row; w and s zoom, a and d move, r adds up what is in view.",
  });
  private readonly room = make("div", { class: "tl-room" }, this.canvas);
  private readonly box = make("div", { class: "tl-box" }, this.room);
  private readonly about = make("div", { class: "tl-about" });
  private readonly total = make("div", { class: "tl-total" });
  private readonly found = make("span", { class: "quiet", role: "status" });
  private readonly search = make("input", {
    type: "search", "aria-label": "Find events by name", placeholder: "Find events by name",
    spellcheck: false,
  });
  private readonly painter = new Painter(this.canvas);

  constructor(figure: HTMLElement, private readonly data: Events) {
    this.whole = { from: 0, to: Math.max(1, data.last) };
    this.first = firstView(data, this.whole);
    this.view = this.first;
    const tool = (label: string, name: string, action: () => void): HTMLElement =>
      button(label, action, { "aria-label": name, title: name });
    const tools = make("div", { class: "table-tools", role: "group", "aria-label": "Timeline" },
      this.search,
      tool("↑", "Previous match", () => this.step(false)),
      tool("↓", "Next match", () => this.step(true)),
      this.found,
      make("span", { class: "spring" }),
      tool("−", "Zoom out", () => this.zoom(1.6)),
      tool("+", "Zoom in", () => this.zoom(1 / 1.6)),
      tool("◀", "Earlier", () => this.pan(-0.5)),
      tool("▶", "Later", () => this.pan(0.5)),
      ...(this.first === this.whole ? [] : [button("Steps", () => this.move(this.first))]),
      button("Whole run", () => this.move(this.whole)),
      tool("Σ", "Add up what is in view", () => this.addUp(this.view)));
    const hint = make("p", { class: "quiet small" },
      "Drag to move, Shift-drag to add up a range, Ctrl-wheel to zoom. Keys: arrows, w s a d, 0, n, r.");
    figure.append(make("div", {}, tools, legendOf(data), this.box, this.about, this.total, hint));
    this.listen();
    new ResizeObserver(later(30, () => this.resize())).observe(this.box);
    this.resize();
    state.watch("time.view", (text) => this.takeView(text));
    state.watch("time.range", (text) => this.takeRange(text));
    state.watch("time.find", (text) => this.find(text ?? ""));
    state.watch("op", (id) => this.takeOp(id));
    this.takeView(state.get("time.view"));
    this.takeRange(state.get("time.range"));
    this.find(state.get("time.find") ?? "");
    this.takeOp(state.get("op"));
    this.describe();
  }

  // --- the view

  private clamped({ from, to }: View): View {
    const span = Math.min(Math.max(to - from, Math.min(20, this.whole.to)), this.whole.to);
    const at = Math.min(Math.max(from, 0), this.whole.to - span);
    return { from: at, to: at + span };
  }

  private move(next: View): void {
    this.view = this.clamped(next);
    this.redraw();
    const isFirst = this.view.from === this.first.from && this.view.to === this.first.to;
    state.setSoon("time.view", isFirst ? null : this.written(this.view));
  }

  private written = ({ from, to }: View): string =>
    [from, to].map((units) => (units / this.data.perUs).toFixed(3)).join("-");

  private zoom(factor: number, at = 0.5): void {
    const span = this.view.to - this.view.from;
    const middle = this.view.from + span * at;
    this.move({ from: middle - span * factor * at, to: middle + span * factor * (1 - at) });
  }

  private pan(share: number): void {
    const by = (this.view.to - this.view.from) * share;
    this.move({ from: this.view.from + by, to: this.view.to + by });
  }

  private units(text: string | null): View | null {
    const us = rangeOf(text);
    return us && { from: us[0] * this.data.perUs, to: us[1] * this.data.perUs };
  }

  private takeView(text: string | null): void {
    this.view = this.clamped(this.units(text) ?? this.first);
    this.redraw();
  }

  private takeRange(text: string | null): void {
    this.range = this.units(text);
    this.tellRange();
    this.redraw();
  }

  // --- drawing

  private redraw(): void {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.draw();
    });
  }

  private draw(): void {
    const { data, view, selected, hovered, isWanted, isMarked, range } = this;
    this.painter.draw({
      data, view, scrolled: this.box.scrollTop, selected, hovered, isWanted, isMarked, range,
    });
  }

  private resize(): void {
    const width = this.box.clientWidth;
    if (!width) return;
    const whole = AXIS + layoutOf(width).row * this.data.lanes.length;
    this.room.style.height = `${whole}px`;
    const height = Math.min(this.box.clientHeight || whole, whole);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.draw();
  }

  // --- selection

  private select(event: number, isShown = true): void {
    this.selected = event;
    this.hovered = -1;
    this.describe();
    if (event >= 0) {
      if (isShown) this.bringIntoView(event);
      announce(this.about.textContent ?? "");
    }
    this.redraw();
  }

  private bringIntoView(event: number): void {
    const [from, to] = [this.data.start[event], this.data.end[event]];
    const { view } = this;
    if (to < view.from || from > view.to) {
      const middle = (from + to) / 2;
      const wide = Math.max(view.to - view.from, (to - from) * 1.5);
      this.move({ from: middle - wide / 2, to: middle + wide / 2 });
    }
    const { row } = layoutOf(this.canvas.clientWidth);
    const top = laneOf(this.data.lanes, event) * row;
    const room = this.box.clientHeight - AXIS - row;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top > this.box.scrollTop + room) this.box.scrollTop = top - room;
  }

  // The op that is selected anywhere on the page is marked, and its next event is selected.
  private takeOp(id: string | null): void {
    const found = id ? namesOf(this.data, id) : null;
    this.isMarked = found?.events ? found.isWanted : null;
    const isHere = this.selected >= 0 && id === this.data.names.opId(this.data.what[this.selected]);
    if (this.isMarked && !isHere) {
      let event = nextWanted(this.data, this.isMarked, this.view.from - 1, -1, true);
      if (event < 0) event = nextWanted(this.data, this.isMarked, -1, -1, true);
      if (event >= 0) this.select(event, !state.get("time.view"));
    }
    this.redraw();
  }

  private find(text: string): void {
    if (this.search.value.trim() !== text) this.search.value = text;
    const found = text ? namesWith(this.data, text) : null;
    this.isWanted = found?.isWanted ?? null;
    this.found.textContent = found ? counted(found.events, "event") : "";
    this.redraw();
  }

  private step(forward: boolean): void {
    const wanted = this.isWanted ?? this.isMarked;
    if (!wanted) return;
    const has = this.selected >= 0;
    const moment = has ? this.data.start[this.selected] : this.view.from - (forward ? 1 : 0);
    let event = nextWanted(this.data, wanted, moment, has ? this.selected : -1, forward);
    if (event < 0) event = nextWanted(this.data, wanted, forward ? -1 : Infinity, -1, forward);
    if (event >= 0) this.select(event);
  }

  private describe(): void {
    const event = this.hovered >= 0 ? this.hovered : this.selected;
    this.about.replaceChildren(...(event < 0
      ? [make("span", { class: "quiet" }, "Point at an event, or go to one with the arrow keys.")]
      : aboutEvent(this.data, event)));
  }

  // --- sums

  private addUp(range: View): void {
    state.set("time.range", this.written(range));
  }

  private tellRange(): void {
    const { range, data } = this;
    this.total.replaceChildren(...(range ? aboutRange(data, range,
      button("Zoom to it", () => this.move(range)),
      button("Clear", () => state.set("time.range", null))) : []));
  }

  // --- pointer and keys

  private unitsAt(x: number): number {
    const { left } = layoutOf(this.canvas.clientWidth);
    const width = Math.max(1, this.canvas.clientWidth - left);
    return this.view.from + ((x - left) / width) * (this.view.to - this.view.from);
  }

  private under(pointer: PointerEvent): number {
    const { left, row } = layoutOf(this.canvas.clientWidth);
    const bounds = this.canvas.getBoundingClientRect();
    const [x, y] = [pointer.clientX - bounds.left, pointer.clientY - bounds.top];
    const lane = this.data.lanes[Math.floor((y - AXIS + this.box.scrollTop) / row)];
    if (x < left || y < AXIS || !lane) return -1;
    const perPixel = (this.view.to - this.view.from) / (this.canvas.clientWidth - left);
    return eventAt(this.data, lane, this.unitsAt(x), 3 * perPixel);
  }

  private listen(): void {
    const { canvas } = this;
    let grip: { x: number; view: View; isRange: boolean; isDrag: boolean } | null = null;
    const xOf = (pointer: PointerEvent): number => pointer.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointerdown", (pointer) => {
      if (pointer.button !== 0) return;
      const onAxis = pointer.clientY - canvas.getBoundingClientRect().top < AXIS;
      grip = { x: xOf(pointer), view: this.view, isRange: pointer.shiftKey || onAxis, isDrag: false };
      canvas.setPointerCapture(pointer.pointerId);
    });
    canvas.addEventListener("pointermove", (pointer) => {
      if (!grip) {
        const event = this.under(pointer);
        if (event === this.hovered) return;
        this.hovered = event;
        this.describe();
        this.redraw();
        return;
      }
      const x = xOf(pointer);
      grip.isDrag ||= Math.abs(x - grip.x) > 4;
      if (!grip.isDrag) return;
      const [a, b] = [this.unitsAt(grip.x), this.unitsAt(x)];
      if (grip.isRange) {
        this.range = { from: Math.max(0, Math.min(a, b)), to: Math.max(a, b) };
        this.redraw();
        return;
      }
      const by = ((x - grip.x) / (canvas.clientWidth - layoutOf(canvas.clientWidth).left))
        * (grip.view.to - grip.view.from);
      this.move({ from: grip.view.from - by, to: grip.view.to - by });
    });
    canvas.addEventListener("pointerup", (pointer) => {
      if (grip?.isDrag && grip.isRange && this.range) this.addUp(this.range);
      if (grip && !grip.isDrag) {
        const event = this.under(pointer);
        this.select(event, false);
        const id = event < 0 ? null : this.data.names.opId(this.data.what[event]);
        if (id && state.get("op")) state.set("op", id, true);
      }
      grip = null;
    });
    canvas.addEventListener("pointercancel", () => {
      grip = null;
    });
    canvas.addEventListener("pointerleave", () => {
      this.hovered = -1;
      this.describe();
      this.redraw();
    });
    canvas.addEventListener("wheel", (wheel) => {
      // The wheel alone scrolls the page, as everywhere.
      if (!wheel.ctrlKey && !wheel.metaKey) return;
      wheel.preventDefault();
      const { left } = layoutOf(canvas.clientWidth);
      const at = (wheel.clientX - canvas.getBoundingClientRect().left - left) / (canvas.clientWidth - left);
      this.zoom(Math.exp(Math.max(-1, Math.min(1, wheel.deltaY / 300))), Math.min(1, Math.max(0, at)));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const action = this.actions[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    });
    this.box.addEventListener("scroll", () => this.redraw(), { passive: true });
    document.addEventListener("themechange", () => {
      this.painter.forgetColours();
      this.redraw();
    });
    this.search.addEventListener("input", later(120, () => {
      const text = this.search.value.trim();
      state.setSoon("time.find", text);
      this.find(text);
    }));
    this.search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      this.find(this.search.value.trim());
      this.step(!event.shiftKey);
    });
  }

  private readonly actions: Record<string, () => void> = {
    ArrowLeft: () => this.along(-1),
    ArrowRight: () => this.along(1),
    ArrowUp: () => this.across(-1),
    ArrowDown: () => this.across(1),
    w: () => this.zoom(1 / 1.6),
    "+": () => this.zoom(1 / 1.6),
    s: () => this.zoom(1.6),
    "-": () => this.zoom(1.6),
    a: () => this.pan(-0.25),
    d: () => this.pan(0.25),
    0: () => this.move(this.whole),
    n: () => this.step(true),
    N: () => this.step(false),
    r: () => this.addUp(this.view),
    Enter: () => this.about.querySelector("a")?.click(),
    Escape: () => {
      this.select(-1);
      state.set("time.range", null);
    },
  };

  private along(by: number): void {
    const { data, selected } = this;
    const lane = selected >= 0 ? data.lanes[laneOf(data.lanes, selected)] : data.lanes[0];
    const next = selected >= 0 ? selected + by : firstBeyond(data, lane, this.view.from);
    if (next >= lane.from && next < lane.to) this.select(next);
  }

  private across(by: number): void {
    const { data, selected, view } = this;
    const at = selected >= 0 ? (data.start[selected] + data.end[selected]) / 2 : (view.from + view.to) / 2;
    let lane = selected >= 0 ? laneOf(data.lanes, selected) + by : 0;
    for (; lane >= 0 && lane < data.lanes.length; lane += by) {
      const event = eventAt(data, data.lanes[lane], at, Infinity);
      if (event >= 0) {
        this.select(event);
        return;
      }
    }
  }
}

export function beginTimeline(): void {
  drawer<Timeline>("timeline", async (figure, block) => {
    new TimelineView(figure, await openEvents(block));
  });
  state.guide("time-", (text, isNew) => {
    const range = rangeOf(text);
    const figure = document.querySelector<HTMLElement>(".scripted.timeline");
    if (!range || !figure) return;
    const margin = (range[1] - range[0]) * 0.25;
    const view = `${Math.max(0, range[0] - margin).toFixed(3)}-${(range[1] + margin).toFixed(3)}`;
    state.set("time.view", view, isNew);
    state.set("time.range", text);
    const tab = figure.closest(".tab");
    if (tab) state.set("tab", tab.matches(".tab:first-of-type") ? null : tab.id);
    void drawFirst("timeline").then(() => figure.scrollIntoView({ block: "start" }));
  });
  key(["w", "s", "a", "d"], "In the timeline: zoom, move");
  key(["n", "N", "r", "0"], "In the timeline: next match, match before, add up, whole run");
}
