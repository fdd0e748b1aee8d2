// The timeline that can be moved in: it takes the place of the picture when that comes near.
//
// The address holds `time.view=FROM-TO`, microseconds from the run's first event, `time.find`, what
// is searched for, and `time.at`, what led there. `#timeline&time.view=FROM-TO` leads to a place.

let timelineShown = null; // resolves when it is drawn

function openTimeline() {
  const figure = document.getElementById("timeline-picture");
  if (!figure) return Promise.resolve();
  timelineShown ??= timelineData(Number(figure.dataset.unit)).then((data) => {
    if (data?.rows) timelineView(figure, data);
  });
  return timelineShown;
}

/** Returns [from, to] in microseconds from the address or a link; null if it holds none. */
function viewOf(text) {
  const found = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [Number(found[1]), Number(found[2])];
  return to > from ? [from, to] : null;
}

function timelineView(figure, data) {
  const whole = { from: 0, to: Math.max(1, data.last) };
  const first = clamped({
    from: Number(figure.dataset.from) * data.perUs,
    to: Number(figure.dataset.to) * data.perUs,
  });
  let view = first;
  let selected = -1;
  let hovered = -1;
  let isWanted = null;
  let sought = null; // what there is to say of a search that a link asked for
  let marked = null; // the place that a link led to
  let palette = null;
  let patterns = [];
  let isDue = false;

  const canvas = make("canvas", {
    class: "tl-canvas",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "timeline",
    "aria-label": "Timeline. Left and right arrows go from event to event, up and down from row "
      + "to row, plus and minus zoom.",
  });
  const room = make("div", { class: "tl-room" }, canvas);
  const box = make("div", { class: "tl-box" }, room);
  const note = make("div", { class: "tl-note", role: "status", hidden: true });
  const details = make("div", { class: "tl-details" });
  const search = timelineSearch((text) => find(text), (forward) => step(forward));
  const tools = make("div", { class: "tools tl-tools", role: "group", "aria-label": "Timeline" },
    makeButton("−", () => zoom(1.6), { "aria-label": "Zoom out", title: "Zoom out" }),
    makeButton("+", () => zoom(1 / 1.6), { "aria-label": "Zoom in", title: "Zoom in" }),
    makeButton("◀", () => pan(-0.5), { "aria-label": "Earlier", title: "Earlier" }),
    makeButton("▶", () => pan(0.5), { "aria-label": "Later", title: "Later" }),
    makeButton("Whole run", () => move(whole)),
    ...(figure.dataset.step ? [makeButton("One step", () => move(first))] : []),
    ...search.parts);
  const hint = make("p", { class: "cutting" }, "Drag to move; hold Ctrl (or ⌘) and turn the wheel "
    + "to zoom where the pointer is. With the keyboard: arrows go from event to event, w and s "
    + "zoom, a and d move, 0 is the whole run, n the next match.");
  const live = make("div", { class: "tl-live" }, tools, note, box, details, hint);
  figure.querySelector(".tl-legend").after(live);
  figure.classList.add("is-live");

  const context = canvas.getContext("2d");
  const laneOf = (event) => {
    let low = 0;
    let high = data.lanes.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (data.lanes[middle].to <= event) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const layout = () => timelineLayout(canvas.clientWidth);
  const plotWidth = () => Math.max(1, canvas.clientWidth - layout().left);

  function clamped({ from, to }) {
    const span = Math.min(Math.max(to - from, Math.min(20, whole.to)), whole.to);
    const at = Math.min(Math.max(from, 0), whole.to - span);
    return { from: at, to: at + span };
  }

  function move(next, isTold = true) {
    view = clamped(next);
    redraw();
    if (isTold) tell();
  }

  function tell() {
    const us = (units) => (units / data.perUs).toFixed(3);
    const isFirst = view.from === first.from && view.to === first.to;
    state.setSoon("time.view", isFirst ? null : `${us(view.from)}-${us(view.to)}`);
  }

  function zoom(factor, at = 0.5) {
    const span = view.to - view.from;
    const moment = view.from + span * at;
    move({ from: moment - span * factor * at, to: moment + span * factor * (1 - at) });
  }

  function pan(share) {
    const by = (view.to - view.from) * share;
    move({ from: view.from + by, to: view.to + by });
  }

  // --- drawing

  function redraw() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      draw();
    });
  }

  function resize() {
    const { row } = layout();
    room.style.height = `${TL_AXIS + row * data.lanes.length}px`;
    const height = Math.min(box.clientHeight, TL_AXIS + row * data.lanes.length);
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(height * ratio);
    draw();
  }

  function draw() {
    if (!canvas.width || !canvas.height) return;
    const began = performance.now();
    if (!palette) {
      palette = timelinePalette(figure, data.names.kinds);
      patterns = timelinePatterns(context, data.names.kinds, palette.paper);
    }
    const ratio = window.devicePixelRatio || 1;
    const { left, row, bar, isNarrow } = layout();
    const width = plotWidth();
    const height = canvas.height / ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, canvas.clientWidth, height);
    const ticks = axisTicks(view, data.perUs, width);
    const toX = (units) => left + (units - view.from) / (view.to - view.from) * width;
    const steps = data.lanes.find((lane) => lane.kind === "steps");
    drawRules(ticks.map(([at]) => toX(at)), steps ? boundaries(steps, toX) : [], height);
    const firstLane = Math.max(0, Math.floor(box.scrollTop / row));
    for (let k = firstLane; k < data.lanes.length; k += 1) {
      const top = TL_AXIS + k * row - box.scrollTop;
      if (top > height) break;
      const lane = data.lanes[k];
      const place = { left, top: top + bar, width, view };
      context.fillStyle = palette.line;
      context.fillRect(0, top + row - 1, canvas.clientWidth, 1);
      if (marked?.lanes.includes(k)) drawMarked(top, row, toX);
      drawLane(context, data, lane, place, palette, patterns, isWanted);
      for (const event of new Set([hovered, selected])) {
        if (event >= lane.from && event < lane.to) outline(event, place, event === selected, toX);
      }
      drawLabel(lane, top, row, left, isNarrow);
    }
    drawAxis(ticks, toX, left, width);
    performance.clearMeasures("timeline-draw");
    performance.measure("timeline-draw", { start: began });
  }

  // The ground of the place that a link led to, on a row of it, between two lines.
  function drawMarked(top, row, toX) {
    const { left } = layout();
    const a = Math.max(toX(marked.from), left);
    const b = Math.min(toX(marked.to), left + plotWidth());
    if (b < left || a > left + plotWidth()) return;
    context.fillStyle = palette.target;
    context.fillRect(a, top, Math.max(1, b - a), row - 1);
    context.fillStyle = palette.link;
    for (const x of [a, b]) context.fillRect(Math.round(x) - 1, top, 2, row - 1);
  }

  // Where steps begin, unless they are too close to distinguish.
  function boundaries(lane, toX) {
    const found = [];
    for (let k = firstBeyond(data, lane, view.from); k < lane.to; k += 1) {
      if (data.start[k] > view.to) break;
      found.push(toX(data.start[k]));
      if (found.length > plotWidth() / 12) return [];
    }
    return found;
  }

  function drawRules(ticks, steps, height) {
    const { left } = layout();
    context.fillStyle = palette.line;
    for (const x of ticks) if (x >= left) context.fillRect(x, TL_AXIS, 1, height);
    context.strokeStyle = palette.quiet;
    context.lineWidth = 1;
    context.setLineDash([2, 3]);
    context.beginPath();
    for (const x of steps) {
      if (x < left) continue;
      context.moveTo(Math.round(x) + 0.5, TL_AXIS);
      context.lineTo(Math.round(x) + 0.5, height);
    }
    context.stroke();
    context.setLineDash([]);
  }

  function outline(event, place, isSelected, toX) {
    const a = Math.max(toX(data.start[event]), place.left);
    const b = Math.min(toX(data.end[event]), place.left + place.width);
    if (b < place.left || a > place.left + place.width) return;
    context.strokeStyle = isSelected ? palette.link : palette.ink;
    context.lineWidth = isSelected ? 3 : 1.5;
    context.strokeRect(a - 1, place.top - 1, Math.max(3, b - a + 2), TL_BAR + 2);
  }

  function drawLabel(lane, top, row, left, isNarrow) {
    const width = isNarrow ? canvas.clientWidth : left;
    if (!isNarrow) {
      context.fillStyle = palette.paper;
      context.fillRect(0, top, left, row - 1);
    }
    const note = lane.device ?? (lane.isProgram ? "the program" : lane.kind === "steps" ? "steps" : "");
    const letters = Math.floor((width - 12) / 6.8);
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.font = `12px ${palette.font}`;
    context.fillStyle = palette.ink;
    const name = cutName(lane.name, isNarrow && note ? letters - note.length - 3 : letters);
    if (isNarrow) {
      context.fillText(note ? `${name} · ${visible(note)}` : name, 2, top + 13);
      return;
    }
    context.fillText(name, 4, top + (note ? 13 : 18));
    if (note) {
      context.fillStyle = palette.quiet;
      context.fillText(cutName(note, letters), 4, top + 26);
    }
  }

  function drawAxis(ticks, toX, left, width) {
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, canvas.clientWidth, TL_AXIS);
    context.fillStyle = palette.quiet;
    context.fillRect(left, TL_AXIS - 1, width, 1);
    context.font = `12px ${palette.font}`;
    context.textBaseline = "alphabetic";
    for (const [at, text] of ticks) {
      const x = toX(at);
      const half = context.measureText(text).width / 2;
      context.textAlign = x - half < left ? "left" : x + half > left + width ? "right" : "center";
      context.fillRect(x, TL_AXIS - 6, 1, 6);
      context.fillText(text, x, 15);
    }
  }

  // --- the details of an event

  function describe() {
    const event = hovered >= 0 ? hovered : selected;
    details.replaceChildren(event < 0
      ? make("p", { class: "quiet" }, "Point at an event, or go to one with the arrow keys.")
      : eventDetails(data, event, data.lanes[laneOf(event)]));
  }

  function select(event, isShown = true) {
    selected = event;
    hovered = -1;
    describe();
    if (event >= 0) {
      if (isShown) bringInSight(event);
      announce(details.textContent);
    }
    redraw();
  }

  function bringInSight(event) {
    const [from, to] = [data.start[event], data.end[event]];
    const span = view.to - view.from;
    if (to < view.from || from > view.to) {
      const middle = (from + to) / 2;
      const wide = Math.max(span, (to - from) * 1.5);
      move({ from: middle - wide / 2, to: middle + wide / 2 });
    }
    scrollTo(laneOf(event));
  }

  function scrollTo(lane) {
    const { row } = layout();
    const top = lane * row;
    const inSight = box.clientHeight - TL_AXIS - row;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top > box.scrollTop + inSight) box.scrollTop = top - inSight;
  }

  function tellNote() {
    const parts = sought ? [make("p", {}, ...sought)] : [];
    if (marked) {
      const away = makeButton("Clear highlight", () => mark(null));
      parts.push(make("p", {}, ...placeNote(data, marked), " ", away));
    }
    const hadFocus = note.contains(document.activeElement);
    note.replaceChildren(...parts);
    note.hidden = parts.length === 0;
    if (hadFocus) canvas.focus({ preventScroll: true });
  }

  // What led to a place says which view to show, and so does the address: the mark moves none. A
  // link that takes it away asks for other events: what is selected then stays.
  function mark(id, isAsked = false) {
    const had = marked;
    marked = placeOf(data, id);
    if (marked) {
      const event = eventOfPlace(data, marked);
      if (event >= 0) select(event, false);
      if (marked.lanes.length) scrollTo(event >= 0 ? laneOf(event) : marked.lanes[0]);
    } else if (had) {
      state.set("time.at", null);
      if (!isAsked && selected === eventOfPlace(data, had)) select(-1);
    }
    tellNote();
    redraw();
  }

  function find(text) {
    const found = text ? namesWith(data, text) : null;
    isWanted = found?.isWanted ?? null;
    const counted = found && `${countText(found.events)} ${found.events === 1 ? "event" : "events"}`;
    const besides = figure.dataset.merged ? " of those that have a name" : "";
    search.tell(found ? counted + besides : "");
    state.set("time.find", text || null);
    sought = found && findingNote(data, text, isWanted, found.events);
    tellNote();
    redraw();
  }

  /** Selects what was found first in sight; if nothing is, the next where the view may move. */
  function selectFound(mayMove) {
    let event = -1;
    for (let k = 0; k < data.rows; k += 1) {
      if (!isWanted[data.what[k]] || data.end[k] < view.from || data.start[k] > view.to) continue;
      if (event < 0 || data.start[k] < data.start[event]) event = k;
    }
    if (event < 0 && mayMove) step(true);
    else select(event);
  }

  function step(forward) {
    if (!isWanted) return;
    const isInSight = selected >= 0;
    const moment = isInSight ? data.start[selected] : view.from - (forward ? 1 : 0);
    let event = nextWanted(data, isWanted, moment, isInSight ? selected : -1, forward);
    // After the last comes the first.
    if (event < 0) event = nextWanted(data, isWanted, forward ? -1 : Infinity, -1, forward);
    if (event >= 0) select(event);
  }

  // --- pointer and keys

  function under(pointer) {
    const { left, row } = layout();
    const bounds = canvas.getBoundingClientRect();
    const x = pointer.clientX - bounds.left - left;
    const y = pointer.clientY - bounds.top;
    const lane = data.lanes[Math.floor((y - TL_AXIS + box.scrollTop) / row)];
    if (x < 0 || y < TL_AXIS || !lane) return -1;
    const perPixel = (view.to - view.from) / plotWidth();
    return eventAt(data, lane, view.from + x * perPixel, 3 * perPixel);
  }

  let grip = null; // where a drag began
  canvas.addEventListener("pointerdown", (pointer) => {
    if (pointer.button !== 0) return;
    grip = { x: pointer.clientX, view, isDrag: false };
    canvas.setPointerCapture(pointer.pointerId);
  });
  canvas.addEventListener("pointermove", (pointer) => {
    if (grip) {
      const by = pointer.clientX - grip.x;
      grip.isDrag ||= Math.abs(by) > 4;
      if (!grip.isDrag) return;
      const units = by / plotWidth() * (grip.view.to - grip.view.from);
      move({ from: grip.view.from - units, to: grip.view.to - units });
      return;
    }
    const event = under(pointer);
    if (event === hovered) return;
    hovered = event;
    describe();
    redraw();
  });
  canvas.addEventListener("pointerup", (pointer) => {
    const isClick = grip && !grip.isDrag;
    grip = null;
    if (isClick) select(under(pointer), false);
  });
  canvas.addEventListener("pointercancel", () => {
    grip = null;
  });
  canvas.addEventListener("pointerleave", () => {
    if (hovered < 0) return;
    hovered = -1;
    describe();
    redraw();
  });
  canvas.addEventListener("wheel", (wheel) => {
    // The wheel alone scrolls the page, as everywhere.
    if (!wheel.ctrlKey && !wheel.metaKey) return;
    wheel.preventDefault();
    const at = (wheel.clientX - canvas.getBoundingClientRect().left - layout().left) / plotWidth();
    zoom(Math.exp(Math.max(-1, Math.min(1, wheel.deltaY / 300))), Math.min(1, Math.max(0, at)));
  }, { passive: false });

  // The event to go on with from where none is chosen: the first in sight.
  function along(by) {
    const from = selected >= 0 ? data.lanes[laneOf(selected)] : data.lanes[0];
    const here = selected >= 0 ? selected + by : firstBeyond(data, from, view.from);
    if (here >= from.from && here < from.to) select(here);
  }

  function across(by) {
    const at = selected >= 0 ? (data.start[selected] + data.end[selected]) / 2
      : (view.from + view.to) / 2;
    let lane = selected >= 0 ? laneOf(selected) + by : 0;
    for (; lane >= 0 && lane < data.lanes.length; lane += by) {
      const event = eventAt(data, data.lanes[lane], at, Infinity);
      if (event >= 0) {
        select(event);
        return;
      }
    }
  }

  const actions = {
    ArrowLeft: () => along(-1),
    ArrowRight: () => along(1),
    ArrowUp: () => across(-1),
    ArrowDown: () => across(1),
    w: () => zoom(1 / 1.6),
    "+": () => zoom(1 / 1.6),
    "=": () => zoom(1 / 1.6),
    s: () => zoom(1.6),
    "-": () => zoom(1.6),
    a: () => pan(-0.25),
    d: () => pan(0.25),
    0: () => move(whole),
    n: () => step(true),
    N: () => step(false),
    Enter: () => details.querySelector("a")?.click(),
    Escape: () => select(-1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  // --- what changes around it

  box.addEventListener("scroll", redraw, { passive: true });
  new ResizeObserver(later(50, resize)).observe(box);
  document.addEventListener("themechange", () => {
    palette = null;
    redraw();
  });
  const take = (text) => {
    const asked = viewOf(text);
    if (asked) move({ from: asked[0] * data.perUs, to: asked[1] * data.perUs }, false);
    else move(first, false);
  };
  state.watch("time.view", take);
  // A link to events leads to one of them, wherever the reader is. Where what was chosen is
  // restored, so is the view, unless the address holds none.
  const takeFind = (text, isAsked = false) => {
    if (text === (search.text() || null) && !isAsked) return;
    search.set(text ?? "");
    find(text ?? "");
    if (text) selectFound(isAsked || !state.get("time.view"));
    else select(-1);
  };
  const takeMark = (id, isAsked = false) => {
    if (id !== (marked?.id ?? null) || (id && isAsked)) mark(id, isAsked);
  };
  state.watch("time.find", takeFind);
  state.watch("time.at", takeMark);
  resize();
  take(state.get("time.view"));
  takeFind(state.get("time.find"));
  takeMark(state.get("time.at"));
  describe();
}

/** Returns what there is to say about an event. */
function eventDetails(data, event, lane) {
  const what = data.what[event];
  const { names } = data;
  const kind = names.kinds[names.kind[what]];
  const words = document.getElementById(`tl-${kind}`)?.dataset.words ?? kind;
  const many = data.count(event);
  const name = names.name(what) ?? (many > 1 ? `most of it: ${words}` : words);
  const took = (units) => exactly(units / data.perUs);
  const shown = cutName(name, 120);
  const line = [lane.name, lane.device].filter(Boolean).join(" · ");
  const lineShown = cutName(line);
  const rows = [
    ["What", make("span", {}, many > 1 ? `${countText(many)} events together, ` : "",
      make("bdi", { class: "name", title: wholeName(name, shown) }, shown))],
    ["Kind", words],
    ["Begins at", took(data.start[event])],
    ["Lasts", data.end[event] > data.start[event] ? took(data.end[event] - data.start[event]) : "no time"],
    ["On", make("bdi", { class: "name", title: wholeName(line, lineShown) }, lineShown)],
  ];
  if (names.opId(what)) {
    const address = addressOf("op", names.opId(what));
    const op = names.op(what) ?? "in the list of ops";
    rows.push(["Op", make("a", { href: address, title: visible(op) }, cutName(op, 80))]);
  }
  const finding = data.findings.get(names.finding(what));
  if (finding) {
    rows.push(["Finding",
      make("a", { href: `#${finding.anchor}` }, `${finding.label}: ${cutName(finding.title, 60)}`)]);
  }
  return make("dl", {}, ...rows.map(([term, value]) =>
    make("div", {}, make("dt", {}, term), " ", make("dd", {}, value))));
}

// A time in short and, where that leaves something out, in full.
function exactly(us) {
  const [short, exact] = [quantity(durationParts(us)), `${countText(us)}\u00a0µs`];
  return short === exact ? short : `${short} (${exact})`;
}

function timelineSearch(asked, stepped) {
  const input = make("input", { type: "search", "aria-label": "Find events by name",
    placeholder: "Find events by name", spellcheck: "false" });
  const status = make("span", { class: "quiet", role: "status" });
  const ask = later(150, () => asked(input.value.trim()));
  input.addEventListener("input", ask);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    asked(input.value.trim());
    stepped(!event.shiftKey);
  });
  return {
    parts: [
      input,
      makeButton("Previous", () => stepped(false), { "aria-label": "Previous match" }),
      makeButton("Next", () => stepped(true), { "aria-label": "Next match" }),
      status,
    ],
    set(text) {
      input.value = text;
    },
    text: () => input.value.trim(),
    tell(text) {
      status.textContent = text;
    },
  };
}

// Puts off what is asked for often until it is asked for no more.
function later(ms, action) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, ms);
  };
}

begin(() => {
  const figure = document.getElementById("timeline-picture");
  if (!figure) return;
  const open = () => openTimeline().catch((error) => console.error(error));
  const near = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    near.disconnect();
    open();
  }, { rootMargin: "400px" });
  near.observe(figure);
  if (["view", "find", "at"].some((name) => state.get(`time.${name}`))) open();
  // Listed for the help: in the timeline itself they are taken before the page's own.
  const never = () => false;
  const nothing = () => {};
  keys.add("← →", "Timeline: event before, next event", nothing, never);
  keys.add("↑ ↓", "Timeline: row above, row below", nothing, never);
  keys.add("w s + -", "Timeline: zoom in and out", nothing, never);
  keys.add("a d", "Timeline: earlier, later", nothing, never);
  keys.add("0", "Timeline: the whole run", nothing, never);
  keys.add("n N", "Timeline: next match, match before", nothing, never);
});
