// The events of the timeline: opened from the page's packed tables, found by time and by name.

/**
 * Opens what the page holds of what happened when; null where it holds nothing.
 *
 * `start` and `end` of an event are in units, `perUs` of them a microsecond; `what` is its place
 * in `names`, `count` how many events it stands for. Events stand by lane and then by start;
 * those of a lane are `from` to `to`.
 */
async function timelineData(unitNs) {
  const [events, names, lanes, findings] = await Promise.all(
    ["trace", "trace-names", "trace-lanes", "trace-findings"].map(packedTable),
  );
  if (!events || !names || !lanes) return null;
  const { gap, duration, what, count } = events.columns;
  const start = new Float64Array(events.rows);
  const end = new Float64Array(events.rows);
  const found = [];
  let row = 0;
  let last = 0;
  for (let lane = 0; lane < lanes.rows; lane += 1) {
    const to = row + lanes.columns.rows.at(lane);
    const from = row;
    let before = 0;
    let longest = 0;
    for (; row < to; row += 1) {
      start[row] = before + gap.raw[row] + gap.offset;
      before = start[row] + duration.raw[row] + duration.offset;
      end[row] = before;
      if (before - start[row] > longest) longest = before - start[row];
      if (before > last) last = before;
    }
    // Events that overlap are found from further back.
    let overlaps = false;
    for (let k = from + 1; k < to && !overlaps; k += 1) overlaps = end[k] < end[k - 1];
    const text = (name) => lanes.columns[name].at(lane);
    found.push({
      from,
      to,
      reach: overlaps ? longest : 0,
      name: text("name") ?? "",
      host: text("host") ?? "",
      kind: text("kind"),
      device: text("device"),
      isProgram: text("program") === 1,
    });
  }
  return {
    rows: events.rows,
    perUs: 1000 / unitNs,
    last,
    start,
    end,
    what: what.raw,
    count: (event) => count.at(event),
    lanes: found,
    names: timelineNames(names),
    findings: timelineFindings(findings),
  };
}

// What events can be: kind, name, op and finding, each by its place.
function timelineNames(table) {
  const { name, kind, op_id: id, op, finding_id: finding } = table.columns;
  return {
    rows: table.rows,
    kinds: kind.texts,
    kind: kind.raw,
    name: (what) => name.at(what),
    opId: (what) => id.at(what),
    op: (what) => op.at(what),
    finding: (what) => finding.at(what),
    findingOf: finding.raw,
    isMarked: Uint8Array.from({ length: table.rows }, (_, what) => Number(!finding.isNone(what))),
  };
}

function timelineFindings(table) {
  const found = new Map();
  for (let row = 0; table && row < table.rows; row += 1) {
    const { id, label, title, anchor } = table.columns;
    found.set(id.at(row), { label: label.at(row), title: title.at(row), anchor: anchor.at(row) });
  }
  return found;
}

/** Returns the first event of a lane that may reach beyond a moment: none before it does. */
function firstBeyond(data, lane, moment) {
  const { from, to, reach } = lane;
  const { start, end } = data;
  let low = from;
  let high = to;
  if (reach) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[middle] < moment - reach) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[middle] < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the event of a lane that goes on at a moment, or is no further off; -1 for none. */
function eventAt(data, lane, moment, within) {
  let best = -1;
  let nearest = within;
  for (let k = firstBeyond(data, lane, moment - within); k < lane.to; k += 1) {
    if (data.start[k] > moment + within) break;
    const off = Math.max(data.start[k] - moment, moment - data.end[k], 0);
    // Of several that go on the last to begin is the innermost.
    if (off <= nearest) {
      nearest = off;
      best = k;
    }
  }
  return best;
}

/**
 * Returns which names, of events or their ops, hold a text; and how many events these are. A
 * finding is searched for as `finding:ID`, as its card links to its events.
 */
function namesWith(data, text) {
  const wanted = text.toLowerCase();
  const isWanted = new Uint8Array(data.names.rows);
  for (let what = 0; what < data.names.rows; what += 1) {
    const finding = `finding:${data.names.finding(what)}`;
    const texts = [data.names.name(what), data.names.op(what), finding];
    if (texts.some((name) => name?.toLowerCase().includes(wanted))) isWanted[what] = 1;
  }
  let events = 0;
  for (let k = 0; k < data.rows; k += 1) if (isWanted[data.what[k]]) events += data.count(k);
  return { isWanted, events };
}

/** Returns the event that begins next after one (or before it), of those wanted; -1 for none. */
function nextWanted(data, isWanted, moment, event, forward) {
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
