// Lines over time and steps: drawn by uPlot, in place of the pictures that stand still.

const charts = (() => {
  const drawn = [];
  const HEIGHT = 190;

  // The colour that a name of the style sheet stands for now, as a canvas wants it.
  const probe = make("span", { hidden: true });
  function colour(name) {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  }

  // Fills as the still pictures have them, for a canvas: stripes, dots, or the ground alone.
  function fill(kind) {
    const ratio = devicePixelRatio || 1;
    if (kind === "regular" || kind === "in-use") return colour("--in-use");
    if (kind !== "warm_up" && kind !== "outlier") return colour("--paper");
    const side = Math.round((kind === "warm_up" ? 7 : 5) * ratio);
    const tile = make("canvas", { width: side, height: side });
    const brush = tile.getContext("2d");
    brush.fillStyle = colour("--paper");
    brush.fillRect(0, 0, side, side);
    brush.fillStyle = brush.strokeStyle = colour(kind === "warm_up" ? "--quiet" : "--bad");
    if (kind === "warm_up") {
      brush.lineWidth = 2 * ratio;
      brush.beginPath();
      for (const from of [-side, 0, side]) {
        brush.moveTo(from, side);
        brush.lineTo(from + side, 0);
      }
      brush.stroke();
    } else {
      brush.beginPath();
      brush.arc(side / 2, side / 2, 1.6 * ratio, 0, 2 * Math.PI);
      brush.fill();
    }
    return brush.createPattern(tile, "repeat");
  }

  function axes(xText, yText) {
    const shared = {
      stroke: () => colour("--quiet"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { show: false },
      font: `13px ${getComputedStyle(document.body).fontFamily}`,
    };
    return [
      { ...shared, values: (u, marks) => marks.map(xText), size: 28, grid: { show: false } },
      { ...shared, values: (u, marks) => marks.map(yText), size: 64 },
    ];
  }

  // A line across the plot, at a value, with dashes.
  function level(u, value, name) {
    if (value === null || value > u.scales.y.max) return;
    const y = u.valToPos(value, "y", true);
    u.ctx.save();
    u.ctx.strokeStyle = colour(name);
    u.ctx.lineWidth = 1.5 * devicePixelRatio;
    u.ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    u.ctx.beginPath();
    u.ctx.moveTo(u.bbox.left, y);
    u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
    u.ctx.stroke();
    u.ctx.restore();
  }

  // A mark upon the highest point.
  function peak(u, at) {
    const x = u.valToPos(u.data[0][at], "x", true);
    const y = u.valToPos(u.data[1][at], "y", true);
    if (x < u.bbox.left - 1 || x > u.bbox.left + u.bbox.width + 1) return;
    const size = 7 * devicePixelRatio;
    u.ctx.save();
    u.ctx.fillStyle = colour("--bad");
    u.ctx.beginPath();
    u.ctx.moveTo(x, y);
    u.ctx.lineTo(x - size * 0.7, y - size);
    u.ctx.lineTo(x + size * 0.7, y - size);
    u.ctx.fill();
    u.ctx.restore();
  }

  /** Draws a chart in a figure, with buttons and keys to zoom and a line that shows the values at the pointer. */
  function draw(figure, plan) {
    const reading = make("p", { class: "reading" }, plan.hint);
    const box = make("div", {
      class: "plot-box", tabindex: "0", role: "group", "aria-label": plan.label,
    });
    const tools = make("div", { class: "tools" });
    const live = make("div", { class: "live" }, tools, box, reading);
    figure.querySelector(".still").before(live);
    figure.classList.add("charted");
    live.append(probe);
    const whole = { min: plan.from, max: plan.to };
    const u = new uPlot(
      {
        width: Math.max(200, box.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false }, sync: { key: plan.group ?? null } },
        scales: {
          x: { time: false, range: (_, min, max) => within(min, max, whole) },
          y: { range: (_, min, max) => [0, (plan.top ?? max ?? 1) * 1.06 || 1] },
        },
        axes: axes(plan.xText, plan.yText),
        series: [{}, ...plan.series],
        hooks: {
          draw: [(chart) => {
            for (const [value, name] of plan.levels) level(chart, value, name);
            if (plan.peak !== undefined) peak(chart, plan.peak);
          }],
          setCursor: [(chart) => {
            const at = chart.cursor.idx;
            reading.textContent = at === null || at === undefined ? plan.hint : plan.reading(at);
          }],
          setScale: [(chart, key) => {
            if (key === "x") follow(chart, plan.group);
          }],
        },
      },
      plan.data,
      box,
    );
    u.setScale("x", whole);
    const entry = { u, plan, whole };
    drawn.push(entry);
    tools.append(
      makeButton("Zoom in", () => zoom(entry, 0.5)),
      makeButton("Zoom out", () => zoom(entry, 2)),
      makeButton("Whole", () => zoom(entry, Infinity)),
    );
    new ResizeObserver(() => {
      if (box.clientWidth > 0 && box.clientWidth !== u.width) {
        u.setSize({ width: box.clientWidth, height: HEIGHT });
      }
    }).observe(box);
    box.addEventListener("keydown", (event) => steer(event, entry, reading));
    return u;
  }

  function within(min, max, whole) {
    if (min === null || min === undefined || !(max > min)) return [whole.min, whole.max];
    return [Math.max(min, whole.min), Math.min(max, whole.max)];
  }

  function zoom({ u, whole }, factor) {
    const { min, max } = u.scales.x;
    const left = u.cursor.left;
    const middle = left > 0 ? u.posToVal(left, "x") : (min + max) / 2;
    const half = Math.min((max - min) * factor, whole.max - whole.min) / 2;
    const from = Math.max(whole.min, Math.min(middle - half, whole.max - 2 * half));
    u.setScale("x", { min: from, max: from + 2 * half });
  }

  let following = false;
  // Charts of one group have one axis of time.
  function follow(chart, group) {
    if (following || !group) return;
    following = true;
    const { min, max } = chart.scales.x;
    for (const { u, plan } of drawn) {
      if (u !== chart && plan.group === group) u.setScale("x", { min, max });
    }
    following = false;
  }

  function steer(event, entry, reading) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { u } = entry;
    const sideways = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (sideways) move(u, sideways);
    else if (event.key === "+" || event.key === "=") zoom(entry, 0.5);
    else if (event.key === "-") zoom(entry, 2);
    else if (event.key === "0") zoom(entry, Infinity);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (sideways) announce(reading.textContent);
  }

  function move(u, by) {
    const xs = u.data[0];
    const { min, max } = u.scales.x;
    let at = u.cursor.idx;
    if (at === null || at === undefined) at = by > 0 ? -1 : xs.length;
    at = Math.max(0, Math.min(xs.length - 1, at + by));
    if (xs[at] < min || xs[at] > max) {
      const half = (max - min) / 2;
      u.setScale("x", { min: xs[at] - half, max: xs[at] + half });
    }
    u.setCursor({ left: u.valToPos(xs[at], "x"), top: 10 });
  }

  document.addEventListener("themechange", () => {
    for (const { u } of drawn) u.redraw(true, true);
  });

  /** Returns a round figure as an axis has it: without the zeros behind its point. */
  function mark([figure, unit]) {
    if (Number(figure) === 0) return "0";
    return quantity([figure.includes(".") ? figure.replace(/\.?0+$/, "") : figure, unit]);
  }

  return { draw, colour, fill, mark };
})();

const CHART_STEP_WORDS = { warm_up: "warm-up", partial: "cut short", outlier: "outlying" };

async function drawSteps() {
  const figure = document.getElementById("steps-chart");
  const table = figure && (await packedTable("steps"));
  if (!table || table.rows < 2) return;
  const { step, kind, duration_us: took } = table.columns;
  const places = Array.from({ length: table.rows }, (_, row) => row);
  const kinds = [...new Set(places.map((row) => kind.at(row)))];
  const say = (us) => quantity(durationParts(us));
  const median = figure.dataset.median ? Number(figure.dataset.median) : null;
  charts.draw(figure, {
    label: "Chart of step times; arrow keys walk, plus and minus zoom",
    hint: "Point at a bar to read it; drag across bars to look closer.",
    from: -0.5,
    to: table.rows - 0.5,
    data: [places, ...kinds.map((k) => places.map((row) => kind.at(row) === k ? took.at(row) : null))],
    series: kinds.map((k) => ({
      stroke: () => charts.colour(k === "outlier" ? "--bad" : "--computing"),
      fill: () => charts.fill(k),
      width: 1,
      paths: uPlot.paths.bars({ size: [0.8, 60] }),
      points: { show: false },
    })),
    levels: [[median, "--bad"]],
    xText: (place) => Number.isInteger(place) ? cutName(String(step.at(place) ?? ""), 10) : "",
    yText: (us) => charts.mark(durationParts(us)),
    reading: (row) => {
      const word = kind.at(row) === "regular" ? "" : ` (${CHART_STEP_WORDS[kind.at(row)] ?? kind.at(row)})`;
      return `Step ${cutName(String(step.at(row)), 24)}${visible(word)}: ${say(took.at(row))}`;
    },
  });
}

async function drawMemory() {
  const figures = [...document.querySelectorAll(".memory-chart")];
  const table = figures.length > 0 && (await packedTable("memory"));
  if (!table) return;
  const { allocator, at_us: at } = table.columns;
  const all = Array.from({ length: table.rows }, (_, row) => row);
  const moments = all.map((row) => at.at(row));
  const from = moments.reduce((a, b) => Math.min(a, b), Infinity);
  const to = moments.reduce((a, b) => Math.max(a, b), -Infinity);
  for (const figure of figures) {
    const rows = all.filter((row) => allocator.at(row) === Number(figure.dataset.allocator));
    if (rows.length > 1) drawAllocator(figure, rows, table, from, to);
  }
}

function drawAllocator(figure, rows, table, from, to) {
  const { at_us: at, bytes } = table.columns;
  const times = rows.map((row) => at.at(row) - from);
  const sizes = rows.map((row) => bytes.at(row));
  const highest = sizes.reduce((a, b) => Math.max(a, b), 0);
  const limit = figure.dataset.limit ? Number(figure.dataset.limit) : null;
  const isNear = limit !== null && highest >= 0.4 * limit && highest <= limit;
  const time = (us) => quantity(durationParts(us));
  const size = (number) => quantity(sizeParts(number));
  charts.draw(figure, {
    label: "Chart of memory in use; arrow keys walk, plus and minus zoom",
    hint: "Point at the line to read it; drag across it to look closer.",
    group: "memory",
    from: 0,
    to: to - from,
    top: isNear ? limit : highest,
    data: [times, sizes],
    peak: sizes.indexOf(highest),
    series: [{
      stroke: () => charts.colour("--ink"),
      fill: () => charts.fill("in-use"),
      width: 1.25,
      paths: uPlot.paths.stepped({ align: 1 }),
      points: { show: false },
    }],
    levels: isNear ? [[limit, "--bad"]] : [],
    xText: (us) => charts.mark(durationParts(us)),
    yText: (number) => charts.mark(sizeParts(number)),
    reading: (row) => {
      const peak = sizes[row] === highest ? ", the peak" : "";
      return `${size(sizes[row])} in use from ${time(times[row])} on${peak}`;
    },
  });
}

begin(() => {
  drawSteps().catch(console.error);
  drawMemory().catch(console.error);
});
