// Lines and stacked bars, drawn by uPlot.

import uPlot from "uplot";
import type { Chart, Series } from "./blocks";
import { announce, button, colours, make } from "./dom";
import { drawer } from "./figures";
import { cut, quantity } from "./format";
import { state } from "./state";
import { moment } from "./timeline_detail";

const HEIGHT = 220;
const NEAR = 0.3; // share of a limit from which it is drawn
const drawn: uPlot[] = [];
const LINES = ["--compute", "--transfer", "--launch", "--input", "--program"];

// Series of one kind differ; those of a part of the step have its colour.
const colourOf = (series: Series, at: number): string =>
  (series.kind && series.kind !== "other" ? `--${series.kind.replaceAll("_", "-")}` : LINES[at % LINES.length]);

/** Returns the values of stacked bars: each series upon those before it. */
export function stacked(series: Series[]): (number | null)[][] {
  const tops: number[] = [];
  return series.map(({ values }) => values.map((value, at) => {
    tops[at] = (tops[at] ?? 0) + (value ?? 0);
    return value === null ? null : tops[at];
  }));
}

function draw(figure: HTMLElement, chart: Chart): void {
  const isBars = chart.style === "bars";
  // The highest of stacked bars is drawn first, the lower ones upon it.
  const values = isBars ? stacked(chart.series).reverse() : chart.series.map((one) => one.values);
  const series = isBars ? [...chart.series].reverse() : chart.series;
  const colour = (name: string): string => colours([name])[0];
  const names = chart.series.map((one, at) => colourOf(one, at));
  const colourNames = isBars ? [...names].reverse() : names;
  const first = chart.x[0] ?? 0;
  const last = chart.x.at(-1) ?? 1;
  const margin = isBars ? 0.5 * ((last - first) / Math.max(1, chart.x.length - 1) || 1) : 0;
  const whole = { min: first - margin, max: Math.max(last, first + 1e-9) + margin };
  const highest = values.flat().reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
  // A limit far above would press the lines flat: then only the legend has it.
  const isNear = chart.limit && highest >= NEAR * chart.limit[1];
  const top = Math.max(highest, isNear ? chart.limit![1] : 0) * 1.06 || 1;
  const xText = (x: number): string => quantity(x, chart.x_unit);

  const hint = chart.to?.length ? "Click to see it in the timeline; drag to zoom." : "Drag to zoom.";
  const reading = make("p", { class: "quiet small" }, hint);
  const box = make("div", {
    class: "plot", tabindex: 0, role: "group",
    "aria-label": `Chart over ${chart.x_label}; arrow keys read it, plus and minus zoom`,
  });
  const legend = make("ul", { class: "legend" }, ...chart.series.map((one, at) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = `var(${names[at]})`;
    return make("li", {}, swatch, cut(one.label, 60));
  }));
  if (chart.limit && !isNear) {
    legend.append(make("li", { class: "quiet" }, `${chart.limit[0]}: ${quantity(chart.limit[1], chart.y_unit)}`));
  }
  figure.append(make("div", { class: "table-tools" }, legend, make("span", { class: "spring" }),
    button("Whole", () => plot.setScale("x", whole))), box, reading);

  const read = (at: number): string => {
    const parts = chart.series.flatMap((one) => {
      const value = one.values[at];
      return value === null || value === undefined || (isBars && value === 0) ? []
        : [`${one.label} ${quantity(value, chart.y_unit)}`];
    });
    return `${chart.x_label} ${xText(chart.x[at])}: ${parts.join(", ") || "unknown"}`;
  };
  const shared = {
    stroke: () => colour("--quiet"), ticks: { show: false },
    font: `12px ${getComputedStyle(document.body).fontFamily}`,
  };
  const bars = uPlot.paths.bars!({ size: [0.86, 60] });
  const steps = uPlot.paths.stepped!({ align: 1 });
  const plot: uPlot = new uPlot({
    width: Math.max(200, box.clientWidth),
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false } },
    scales: {
      x: { time: false, range: (_, min, max) => [min ?? whole.min, max ?? whole.max] },
      y: { range: () => [0, top] },
    },
    axes: [
      {
        ...shared, grid: { show: false }, size: 30,
        values: (_, at, __, ___, pitch) => at.map((x) => (isBars && !Number.isInteger(x) ? ""
          : chart.x_unit === "us" ? moment(x, pitch) : xText(x))),
      },
      {
        ...shared, values: (_, at) => at.map((y) => quantity(y, chart.y_unit)), size: 70,
        grid: { stroke: () => colour("--line"), width: 1 },
      },
    ],
    series: [{}, ...series.map((one, at) => ({
      label: one.label,
      stroke: () => colour(colourNames[at]),
      ...(isBars ? { fill: () => colour(colourNames[at]), paths: bars, width: 0 }
        : { width: 1.5, ...(chart.style === "steps" ? { paths: steps } : {}) }),
      points: { show: false },
    }))],
    hooks: {
      draw: [(u) => limit(u, isNear ? chart.limit! : null, colour)],
      setCursor: [(u) => {
        const at = u.cursor.idx;
        reading.textContent = at === null || at === undefined ? hint : read(at);
      }],
    },
  }, [chart.x, ...values] as uPlot.AlignedData, box);
  plot.setScale("x", whole);
  drawn.push(plot);
  plot.over.addEventListener("click", () => {
    const to = chart.to?.[plot.cursor.idx ?? -1];
    if (to && !plot.select.width) state.follow(to);
  });
  box.addEventListener("keydown", (event) => steer(event, plot, whole, () => announce(reading.textContent ?? "")));
  new ResizeObserver(() => {
    if (box.clientWidth && box.clientWidth !== plot.width) plot.setSize({ width: box.clientWidth, height: HEIGHT });
  }).observe(box);
}

// A dashed line across the plot, with its label.
function limit(u: uPlot, at: [string, number] | null, colour: (name: string) => string): void {
  if (!at) return;
  const ratio = devicePixelRatio || 1;
  const y = u.valToPos(at[1], "y", true);
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--bad");
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash([6 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(u.bbox.left, y);
  ctx.lineTo(u.bbox.left + u.bbox.width, y);
  ctx.stroke();
  ctx.font = `${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  ctx.fillText(cut(at[0], 60), u.bbox.left + 4 * ratio, y + 3 * ratio);
  ctx.restore();
}

function steer(event: KeyboardEvent, u: uPlot, whole: { min: number; max: number }, announced: () => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
  if (!by && !factor && event.key !== "0") return;
  event.preventDefault();
  const xs = u.data[0];
  const { min, max } = u.scales.x;
  if (by) {
    const at = Math.max(0, Math.min(xs.length - 1, (u.cursor.idx ?? (by > 0 ? -1 : xs.length)) + by));
    u.setCursor({ left: u.valToPos(xs[at], "x"), top: 10 });
    announced();
  } else if (factor) {
    const middle = (min! + max!) / 2;
    const half = Math.min(((max! - min!) * factor) / 2, (whole.max - whole.min) / 2);
    const from = Math.max(whole.min, Math.min(middle - half, whole.max - 2 * half));
    u.setScale("x", { min: from, max: from + 2 * half });
  } else u.setScale("x", whole);
}

export function beginCharts(): void {
  drawer<Chart>("chart", (figure, chart) => {
    if (chart.x.length) draw(figure, chart);
  });
  document.addEventListener("themechange", () => {
    for (const plot of drawn) plot.redraw(true, true);
  });
}
