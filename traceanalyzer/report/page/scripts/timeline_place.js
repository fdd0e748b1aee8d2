// Why the reader is at a place of the timeline: what led there, and the rows that it is on.
//
// The address holds `time.at`, the id of what led there: a gap in the list, a piece of evidence.
// That element describes the place: `data-words` in words, `data-from` and `data-to` in microseconds
// from the run's first event, and `data-lanes`, the indices of its rows.

/** Returns the place that an element of the page describes; null if it describes none. */
function placeOf(data, id) {
  const element = id ? document.getElementById(id) : null;
  if (!element?.dataset.words) return null;
  const { words, from, to } = element.dataset;
  const lanes = (element.dataset.lanes || "").split(" ").filter(Boolean).map(Number)
    .filter((at) => at < data.lanes.length);
  const isWhole = from === undefined;
  return {
    id,
    words,
    lanes,
    from: isWhole ? 0 : Number(from) * data.perUs,
    to: isWhole ? data.last : Number(to) * data.perUs,
    isWhole,
  };
}

/** Returns the event that a place is: that of its rows which begins and ends nearest to it. */
function eventOfPlace(data, { lanes, from, to, isWhole }) {
  let best = -1;
  if (isWhole) return best;
  let nearest = (to - from) / 4 + 2; // units: times are rounded
  for (const lane of lanes.map((at) => data.lanes[at])) {
    for (let k = firstBeyond(data, lane, from); k < lane.to && data.start[k] <= to; k += 1) {
      const off = Math.abs(data.start[k] - from) + Math.abs(data.end[k] - to);
      if (off > nearest) continue;
      nearest = off;
      best = k;
    }
  }
  return best;
}

/** Returns the note on a place: what led there, on which rows, and the way back. */
function placeNote(data, place) {
  const rows = place.lanes.map((at) => laneName(data.lanes[at]));
  const on = rows.length ? ` Marked in ${placeList(rows)}.` : " It is on no row that is shown.";
  return [make("span", {}, visible(place.words), on), " ",
    make("a", { href: `#${encodeURIComponent(place.id)}` }, "Back to where it is listed")];
}

/**
 * Returns what there is to say where the events of a finding were asked for; null where the
 * search, `finding:ID`, asks for something else.
 */
function findingNote(data, text, isWanted, events) {
  const finding = text.startsWith("finding:") ? data.findings.get(text.slice(8)) : null;
  if (!finding) return null;
  const rows = data.lanes.filter((lane) => {
    for (let k = lane.from; k < lane.to; k += 1) if (isWanted[data.what[k]]) return true;
    return false;
  }).map(laneName);
  const counted = `${countText(events)} ${events === 1 ? "event" : "events"}`;
  const where = rows.length ? `${counted}, in ${placeList(rows)}; all others are pale.`
    : "none of them is shown.";
  return ["The events of ",
    make("a", { href: `#${finding.anchor}` }, `finding ${finding.label}`),
    make("span", {}, `, ${cutName(finding.title, 120)}: ${where}`)];
}

const laneName = (lane) => cutName([lane.name, lane.device].filter(Boolean).join(" · "), 60);

function placeList(names) {
  const shown = names.slice(0, 3).join(", ");
  const more = names.length - 3;
  return `${names.length === 1 ? "the row" : "the rows"} ${shown}`
    + (more > 0 ? ` and ${countText(more)} more` : "");
}
