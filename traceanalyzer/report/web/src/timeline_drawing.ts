// Draws the timeline on a canvas.

import { colours } from "./dom";
import { cut } from "./format";
import { type Events, type Lane, laneOf } from "./timeline_data";
import { detail, FAINT, ticks, type View } from "./timeline_detail";

export const AXIS = 26;
const ROW = 26; // height of a lane
const BAR = 19; // of an event
const LABEL = 200; // width of the names of lanes
const NARROW = 560; // below it, names are above their lanes
const TEXT = 40; // pixels that a name needs at least
const LETTER = 6.4;
// Top and height of what is no work of its own.
const HEIGHTS: Record<string, [number, number]> = {
  runtime: [5, 9], program: [5, 9], wait: [8, 3], call: [8, 3],
};
// Lines upon kinds, so that no kind is known by its colour alone: dx, dy and pitch.
const HATCHES: Record<string, [number, number]> = {
  copy: [6, 6], host_op: [6, -6], unplaced: [6, -6], input: [0, 6], launch: [6, 0],
  preparation: [4, 4],
};
const COLOURS: Record<string, string> = {
  step: "--line", compute: "--compute", copy: "--transfer", host_op: "--cpu-op",
  unplaced: "--unplaced", input: "--input", launch: "--launch", runtime: "--runtime",
  program: "--program", preparation: "--preparation", wait: "--quiet", call: "--quiet",
};

export interface Layout {
  left: number;
  row: number;
  bar: number;
  isNarrow: boolean;
}

export function layoutOf(width: number): Layout {
  const isNarrow = width < NARROW;
  return { left: isNarrow ? 0 : LABEL, row: isNarrow ? ROW + 18 : ROW, bar: isNarrow ? 18 : 3, isNarrow };
}

export interface Scene {
  data: Events;
  view: View;
  scrolled: number;
  selected: number;
  hovered: number;
  isWanted: Uint8Array | null;
  isMarked: Uint8Array | null;
  range: View | null;
}

interface Palette {
  kinds: string[];
  patterns: (CanvasPattern | null)[];
  ink: string;
  paper: string;
  quiet: string;
  line: string;
  link: string;
  font: string;
}

export class Painter {
  private palette: Palette | null = null;
  private readonly context: CanvasRenderingContext2D;
  private scene!: Scene;
  private layout!: Layout;
  private width = 0;
  private height = 0;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d")!;
  }

  forgetColours(): void {
    this.palette = null;
  }

  private palettes(kinds: string[]): Palette {
    const [ink, paper, quiet, line, link] = colours(["--fg", "--bg", "--quiet", "--line", "--link"]);
    return {
      kinds: colours(kinds.map((kind) => COLOURS[kind] ?? "--quiet")),
      patterns: kinds.map((kind) => this.pattern(HATCHES[kind])),
      ink, paper, quiet, line, link,
      font: getComputedStyle(document.body).fontFamily,
    };
  }

  private pattern(hatch: [number, number] | undefined): CanvasPattern | null {
    if (!hatch) return null;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const drawn = tile.getContext("2d")!;
    drawn.strokeStyle = "rgb(255 255 255 / 40%)";
    drawn.beginPath();
    for (const shift of [-6, 0, 6]) {
      const [dx, dy] = hatch;
      drawn.moveTo(dx ? shift : 2.5, dx && dy < 0 ? 6 : dx ? (dy ? 0 : 2.5) : 0);
      drawn.lineTo(dx ? shift + 6 : 2.5, dx && dy < 0 ? 0 : dx ? (dy ? 6 : 2.5) : 6);
    }
    drawn.stroke();
    return this.context.createPattern(tile, "repeat");
  }

  /** Draws all that is in view. */
  draw(scene: Scene): void {
    if (!this.canvas.width || !this.canvas.height) return;
    const began = performance.now();
    const { data, view } = scene;
    this.palette ??= this.palettes(data.names.kinds);
    this.scene = scene;
    const ratio = window.devicePixelRatio || 1;
    const whole = this.canvas.width / ratio;
    this.layout = layoutOf(whole);
    const { left, row, bar } = this.layout;
    this.width = Math.max(1, whole - left);
    this.height = this.canvas.height / ratio;
    const { context, palette } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, whole, this.height);
    const marks = ticks(view, data.perUs, this.width);
    this.rules(marks);
    for (let k = Math.max(0, Math.floor(scene.scrolled / row)); k < data.lanes.length; k += 1) {
      const top = AXIS + k * row - scene.scrolled;
      if (top > this.height) break;
      context.fillStyle = palette.line;
      context.fillRect(0, top + row - 1, whole, 1);
      this.lane(data.lanes[k], top + bar);
      this.label(data.lanes[k], top);
    }
    this.range();
    this.arrows();
    this.axis(marks);
    performance.clearMeasures("timeline-draw");
    performance.measure("timeline-draw", { start: began });
  }

  private x(units: number): number {
    const { view } = this.scene;
    return this.layout.left + ((units - view.from) / (view.to - view.from)) * this.width;
  }

  // Lines at the ticks, and dashed ones where steps begin, unless they are too dense.
  private rules(marks: [number, string][]): void {
    const { context, palette, scene: { data, view } } = this;
    context.fillStyle = palette!.line;
    for (const [at] of marks) context.fillRect(this.x(at), AXIS, 1, this.height);
    const steps = data.lanes.find((lane) => lane.kind === "steps");
    if (!steps) return;
    const found: number[] = [];
    for (let k = steps.from; k < steps.to && found.length < this.width / 12; k += 1) {
      if (data.start[k] >= view.from && data.start[k] <= view.to) found.push(this.x(data.start[k]));
    }
    if (found.length >= this.width / 12) return;
    context.strokeStyle = palette!.quiet;
    context.lineWidth = 1;
    context.setLineDash([2, 3]);
    context.beginPath();
    for (const x of found) {
      context.moveTo(Math.round(x) + 0.5, AXIS);
      context.lineTo(Math.round(x) + 0.5, this.height);
    }
    context.stroke();
    context.setLineDash([]);
  }

  private lane(lane: Lane, top: number): void {
    const { context, scene, palette } = this;
    const { data, isWanted } = scene;
    const { boxes, marks } = detail(data, lane, scene.view, this.width, isWanted, scene.isMarked);
    context.save();
    context.beginPath();
    context.rect(this.layout.left, top, this.width, ROW);
    context.clip();
    context.translate(this.layout.left, top);
    for (const box of boxes) {
      const kind = data.names.kinds[box.kind];
      const [y, height] = HEIGHTS[kind] ?? [0, BAR];
      context.globalAlpha = (box.share < FAINT ? 0.5 : 1) * (isWanted && !box.isWanted ? 0.2 : 1);
      context.fillStyle = palette!.kinds[box.kind];
      const gap = box.width > 4 && !box.isMerged ? 0.5 : 0; // neighbours stay distinct
      context.fillRect(box.x, y, box.width - gap, height);
      const name = !box.isMerged && box.width >= TEXT && height === BAR
        ? data.names.name(data.what[box.event]) : null;
      const pattern = palette!.patterns[box.kind];
      if (pattern && box.width >= 5) {
        context.fillStyle = pattern;
        if (name) context.fillRect(box.x, y + 15, box.width - gap, height - 15);
        else context.fillRect(box.x, y, box.width - gap, height);
      }
      if (name) this.name(name, box.x, box.width, kind === "step" ? palette!.ink : "#fff");
    }
    context.globalAlpha = 1;
    context.fillStyle = palette!.ink;
    for (const [x, width] of marks) context.fillRect(x, BAR + 1, width, 3);
    context.restore();
    for (const event of new Set([scene.hovered, scene.selected])) {
      if (event >= lane.from && event < lane.to) this.outline(event, top, event === scene.selected);
    }
  }

  private name(name: string, x: number, width: number, colour: string): void {
    const from = Math.max(x, 0);
    const letters = Math.floor((x + width - from - 8) / LETTER);
    if (letters < Math.min(6, name.length)) return;
    const { context, palette } = this;
    context.fillStyle = colour;
    context.font = `11.5px ${palette!.font}`;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillText(cut(name, letters), from + 4, 12.5);
  }

  private outline(event: number, top: number, isSelected: boolean): void {
    const { context, palette, scene: { data }, layout: { left } } = this;
    const a = Math.max(this.x(data.start[event]), left);
    const b = Math.min(this.x(data.end[event]), left + this.width);
    if (b < left || a > left + this.width) return;
    context.strokeStyle = isSelected ? palette!.link : palette!.ink;
    context.lineWidth = isSelected ? 2.5 : 1.5;
    context.strokeRect(a - 1, top - 1, Math.max(3, b - a + 2), BAR + 2);
  }

  // From the end of what comes before to the start of what follows: producer, transfer, consumer.
  private arrows(): void {
    const { context, palette, scene: { data, selected, scrolled }, layout: { row, bar } } = this;
    const pairs = data.arrows.get(selected) ?? [];
    context.strokeStyle = context.fillStyle = palette!.link;
    context.lineWidth = 1.5;
    for (const [from, to] of pairs) {
      const y = (event: number): number =>
        AXIS + laneOf(data.lanes, event) * row - scrolled + bar + BAR / 2;
      const [x0, y0, x1, y1] = [this.x(data.end[from]), y(from), this.x(data.start[to]), y(to)];
      const bend = Math.max(20, Math.abs(x1 - x0) / 2);
      context.beginPath();
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
      context.stroke();
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x1 - 7, y1 - 4);
      context.lineTo(x1 - 7, y1 + 4);
      context.fill();
    }
  }

  private range(): void {
    const { context, palette, scene: { range }, layout: { left } } = this;
    if (!range) return;
    const a = Math.max(left, this.x(range.from));
    const b = Math.min(left + this.width, this.x(range.to));
    if (b < a) return;
    context.globalAlpha = 0.12;
    context.fillStyle = palette!.link;
    context.fillRect(a, AXIS, b - a, this.height);
    context.globalAlpha = 1;
    for (const x of [a, b]) context.fillRect(Math.round(x) - 1, AXIS, 2, this.height);
  }

  private label(lane: Lane, top: number): void {
    const { context, palette, layout: { left, isNarrow, row } } = this;
    const width = isNarrow ? this.width : left;
    if (!isNarrow) {
      context.fillStyle = palette!.paper;
      context.fillRect(0, top, left, row - 1);
    }
    const note = lane.is_program ? "program's thread" : (lane.device ?? "").replace(/^\/device:/, "");
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.font = `12px ${palette!.font}`;
    context.fillStyle = palette!.ink;
    let name = lane.name || "thread";
    for (let letters = 60; letters > 6 && context.measureText(name).width > width - 6; letters -= 2) {
      name = cut(lane.name, letters);
    }
    const y = top + (isNarrow ? 13 : 17);
    context.fillText(name, 2, y);
    const after = 8 + context.measureText(name).width;
    if (!note || context.measureText(note).width > width - after) return;
    context.fillStyle = palette!.quiet;
    context.fillText(note, after, y);
  }

  private axis(marks: [number, string][]): void {
    const { context, palette, layout: { left } } = this;
    context.fillStyle = palette!.paper;
    context.fillRect(0, 0, left + this.width, AXIS);
    context.fillStyle = palette!.quiet;
    context.fillRect(left, AXIS - 1, this.width, 1);
    context.font = `12px ${palette!.font}`;
    context.textBaseline = "alphabetic";
    for (const [at, text] of marks) {
      const x = this.x(at);
      const half = context.measureText(text).width / 2;
      context.textAlign = x - half < left ? "left" : x + half > left + this.width ? "right" : "center";
      context.fillRect(x, AXIS - 6, 1, 6);
      context.fillText(text, x, 15);
    }
  }
}
