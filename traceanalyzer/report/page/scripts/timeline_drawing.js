// Draws the timeline on a canvas: what is narrower than a pixel shows as what took most of it.

const TL_ROW = 30; // height of a lane
const TL_BAR = 19; // of what is work
const TL_AXIS = 26;
const TL_LABEL = 190; // width of the names at the left
const TL_NARROW = 560; // below it names are above their lanes
const TL_FAINT = 0.25; // share of a pixel below which it is drawn pale
const TL_HEIGHTS = { runtime: [5, 9], program: [5, 9], wait: [8, 3], call: [8, 3] };
const TL_TEXT = 46; // pixels that a name needs at least

/** Returns where things are on a canvas of a width. */
function timelineLayout(width) {
  const isNarrow = width < TL_NARROW;
  return {
    left: isNarrow ? 0 : TL_LABEL,
    row: isNarrow ? TL_ROW + 20 : TL_ROW,
    bar: isNarrow ? 18 : 3,
    isNarrow,
  };
}

// The style sheet's colours, read from swatches because a variable does not resolve to a colour.
function timelinePalette(figure, kinds) {
  const probe = make("span", { "aria-hidden": "true", class: "tl-probe" });
  figure.append(probe);
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const of = {
    step: "--line", compute: "--ink", copy: "--to-host", host_op: "--bad",
    unplaced: "--bad", input: "--warn",
    launch: "--certain", runtime: "--likely", program: "--link", wait: "--quiet", call: "--quiet",
  };
  const palette = {
    kind: kinds.map((kind) => colour(of[kind] ?? "--quiet")),
    ink: colour("--ink"),
    paper: colour("--paper"),
    quiet: colour("--quiet"),
    line: colour("--line"),
    link: colour("--link"),
    target: colour("--target"),
    font: getComputedStyle(figure).fontFamily,
  };
  probe.remove();
  return palette;
}

// Patterns of the kinds: the same lines as in the picture that needs no script.
function timelinePatterns(context, kinds, paper) {
  return kinds.map((kind) => {
    const lines = document.querySelector(`#tl-${CSS.escape(kind)} .tl-lines`)?.getAttribute("d");
    if (!lines) return null;
    const tile = document.createElement("canvas");
    tile.width = 12;
    tile.height = 12;
    const drawn = tile.getContext("2d");
    drawn.scale(2, 2);
    drawn.strokeStyle = paper;
    drawn.lineWidth = 1.25;
    drawn.stroke(new Path2D(lines));
    const pattern = context.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix().scale(0.5));
    return pattern;
  });
}

/**
 * Returns what to draw of a lane: boxes as [kind, x, width, share, event], by x, and in `marks`
 * the stretches that findings are about. Only the visible part is read.
 */
function laneBoxes(data, lane, view, width, isWanted, isLeftOut) {
  const { start, end, what, names } = data;
  const scale = width / (view.to - view.from);
  const boxes = [];
  const marks = [];
  let pixel = -1; // the one that is being filled
  let took = 0;
  let best = -1;
  let mostTook = -1;
  let marked = -1; // the event in it that a finding is about, what was searched for first
  let wantedHere = false;
  const flush = () => {
    if (pixel < 0) return;
    addBox(boxes, names.kind[what[best]], pixel, 1, Math.min(1, took), best, wantedHere);
    if (marked >= 0) addMark(marks, pixel, 1, marked, names.findingOf[what[marked]]);
    pixel = -1;
  };
  for (let k = firstBeyond(data, lane, view.from); k < lane.to; k += 1) {
    if (start[k] > view.to) break;
    if (end[k] < view.from || isLeftOut) continue;
    const a = (start[k] - view.from) * scale;
    const b = (end[k] - view.from) * scale;
    const wanted = isWanted !== null && isWanted[what[k]] === 1;
    if (b - a >= 1.5) {
      flush();
      const x = Math.max(a, -2);
      const wide = Math.min(b, width + 2) - x;
      boxes.push([names.kind[what[k]], x, wide, 1, k, wanted]);
      if (names.isMarked[what[k]]) addMark(marks, x, wide, k, names.findingOf[what[k]]);
      continue;
    }
    const at = Math.max(0, Math.floor(a));
    if (at !== pixel) {
      flush();
      pixel = at;
      took = 0;
      mostTook = -1;
      marked = -1;
      wantedHere = false;
    }
    took += b - a;
    // What was searched for shows before what took longer.
    const weight = b - a + (wanted ? 10 : 0);
    if (weight > mostTook) {
      mostTook = weight;
      best = k;
    }
    if (wanted) wantedHere = true;
    if (names.isMarked[what[k]] && (marked < 0 || wanted)) marked = k;
  }
  flush();
  return { boxes, marks };
}

// Pixels side by side that look the same are one box.
function addBox(boxes, kind, x, width, share, event, wanted) {
  const last = boxes[boxes.length - 1];
  const isFaint = share < TL_FAINT;
  if (last && last[0] === kind && last[1] + last[2] === x && last[5] === wanted
    && last[3] < TL_FAINT === isFaint && last[6]) {
    last[2] += width;
    return;
  }
  boxes.push([kind, x, width, share, event, wanted, true]);
}

// Marks of one finding that touch are one; those of another finding stay separate, with their own number.
function addMark(marks, x, width, event, finding) {
  const last = marks[marks.length - 1];
  if (last && last[3] === finding && x - (last[0] + last[1]) < 1.5) {
    last[1] = x + width - last[0];
    return;
  }
  marks.push([x, width, event, finding]);
}

/** Draws a lane at a height: boxes, names where there is room, and what findings are about. */
function drawLane(context, data, lane, place, palette, patterns, isWanted) {
  const { boxes, marks } = laneBoxes(data, lane, place.view, place.width, isWanted, false);
  const { names, what } = data;
  context.save();
  context.beginPath();
  context.rect(place.left, place.top, place.width, TL_ROW);
  context.clip();
  context.translate(place.left, place.top);
  for (const [kind, x, width, share, event, wanted, isMany] of boxes) {
    const [top, height] = TL_HEIGHTS[names.kinds[kind]] ?? [0, TL_BAR];
    const isDim = isWanted !== null && !wanted;
    context.globalAlpha = (share < TL_FAINT ? 0.5 : 1) * (isDim ? 0.25 : 1);
    context.fillStyle = palette.kind[kind];
    const gap = width > 4 && !isMany ? 0.5 : 0; // so that neighbours can be distinguished
    context.fillRect(x, top, width - gap, height);
    const text = !isMany && width >= TL_TEXT && height === TL_BAR ? names.name(what[event]) : null;
    if (patterns[kind] && width >= 5) {
      context.fillStyle = patterns[kind];
      if (text) context.fillRect(x, top + 15, width - gap, height - 15);
      else context.fillRect(x, top, width - gap, height);
    }
    if (text) drawName(context, text, x, width, palette, names.kinds[kind]);
  }
  context.globalAlpha = 1;
  context.fillStyle = palette.ink;
  for (const [x, width] of marks) context.fillRect(x, TL_BAR + 2, Math.max(1, width), 3);
  drawBadges(context, data, marks, place.width, palette);
  context.restore();
}

function drawName(context, text, x, width, palette, kind) {
  const from = Math.max(x, 0);
  const room = x + width - from - 8;
  const letters = Math.floor(room / 6.6);
  if (letters < 5) return;
  context.fillStyle = kind === "step" ? palette.ink : palette.paper;
  context.font = `12px ${palette.font}`;
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.fillText(cutName(text, letters), from + 4, 12);
}

// The number of the finding, at stretches that are wide enough or stand alone.
function drawBadges(context, data, marks, width, palette) {
  let free = 0;
  context.font = `600 11px ${palette.font}`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const [x, wide, event] of marks) {
    const finding = data.findings.get(data.names.finding(data.what[event]));
    if (!finding || x < free) continue;
    const size = 8 + 7 * finding.label.length;
    const at = Math.min(Math.max(x, 0) + Math.min(wide, size) / 2, width - size / 2);
    if (at - size / 2 < free - size) continue;
    context.fillStyle = palette.paper;
    context.fillRect(at - size / 2, TL_BAR - 3, size, 13);
    context.strokeStyle = palette.ink;
    context.lineWidth = 1;
    context.strokeRect(at - size / 2 + 0.5, TL_BAR - 2.5, size - 1, 12);
    context.fillStyle = palette.ink;
    context.fillText(finding.label, at, TL_BAR + 4);
    free = at + size / 2 + 60;
  }
}

/** Returns round times for an axis: [place in units, text]. */
function axisTicks(view, perUs, width) {
  const length = (view.to - view.from) / perUs;
  const rough = length / Math.max(2, Math.floor(width / 110));
  const power = 10 ** Math.floor(Math.log10(rough));
  const pitch = [1, 2, 5, 10].map((f) => f * power).find((p) => p >= rough * 0.999);
  const found = [];
  const first = Math.ceil(view.from / perUs / pitch - 1e-9);
  const last = Math.floor(view.to / perUs / pitch + 1e-9);
  for (let k = first; k <= last && found.length < 60; k += 1) {
    found.push([k * pitch * perUs, timelineMoment(k * pitch, pitch)]);
  }
  return found;
}

/** Returns a moment as text, with as many decimals as tell it from its neighbours. */
function timelineMoment(us, pitch) {
  const size = Math.max(Math.abs(us), pitch);
  const [unit, factor] = TIME_UNITS.findLast(([, f]) => size >= f) ?? TIME_UNITS[0];
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(pitch / factor) - 1e-9)));
  return `${(us / factor).toFixed(decimals)}\u00a0${unit}`;
}
