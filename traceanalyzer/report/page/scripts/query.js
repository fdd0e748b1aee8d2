// The small language in which a reader asks for rows: words, `field:value`, `field=value` and
// `field>1ms`, each negated by a `-` before it. All terms must match. No term matches an unknown
// value, negated or not: for `-type:Cast` the page says how many rows have no known type.

const TIME_NAMES = { ns: 1e-3, us: 1, "µs": 1, "μs": 1, ms: 1e3, s: 1e6, min: 6e7 };
const SIZE_NAMES = {
  b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40,
};
const COMPARISONS = {
  ">": (a, b) => a > b,
  "<": (a, b) => a < b,
  ">=": (a, b) => a >= b,
  "<=": (a, b) => a <= b,
  "=": (a, b) => a === b,
};
const UNIT_EXAMPLES = { time: "1ms", bytes: "1MB", count: "10" };

// Whether a term holds for a row.
const FAILS = 0;
const HOLDS = 1;
const UNKNOWN = 2;

/** A query that cannot be understood; the message says what to write instead. */
class QueryError extends Error {}

/**
 * Reads a query into its terms.
 *
 * @param {string} text
 * @param {{fields: Map<string, {kind: string}>, plain: Object<string, string>}} grammar What can
 *   be asked for: of `kind` "text", "time", "bytes" or "count". `plain` names, for each kind of
 *   figure, the field that a comparison without a field is about.
 * @returns {Array<object>} Terms for `matching`.
 * @throws {QueryError}
 */
function readQuery(text, grammar) {
  const tokens = text.match(/(?:[^\s"]|"[^"]*(?:"|$))+/g) ?? [];
  return tokens.map((token) => {
    if ((token.split('"').length - 1) % 2) {
      throw new QueryError(`${token}: the quote is not closed; write ${token}"`);
    }
    const isNegated = token.length > 1 && token.startsWith("-");
    return { token, isNegated, ...readTerm(isNegated ? token.slice(1) : token, grammar) };
  });
}

function readTerm(token, grammar) {
  const parts = /^([\p{L}_-]*)(>=|<=|:|>|<|=)(.*)$/su.exec(token);
  const isWord = !parts || (parts[2] === ":" && (parts[1] === "" || parts[3].startsWith(":")));
  if (isWord) return { kind: "word", value: unquoted(token) };
  const [, name, operator, rest] = parts;
  const value = unquoted(rest);
  if (name === "") return plainComparison(token, operator, value, grammar);
  const field = grammar.fields.get(name.toLowerCase());
  if (!field) throw unknownField(token, name, grammar);
  if (value === "" && operator !== "=") {
    throw new QueryError(`${token}: a value is missing; write ${exampleOf(name, field)}`);
  }
  const asked = { name: name.toLowerCase(), field };
  if (isUnknownAsked(field, operator, value)) return { kind: "unknown", ...asked };
  if (field.kind === "text") return textTerm(token, operator, value, asked);
  if (operator === ":") {
    throw new QueryError(`${token}: “${name}” is a figure; write ${exampleOf(name, field)}`);
  }
  const figure = readFigure(value);
  if (!figure || !fits(figure, field.kind)) {
    throw new QueryError(
      `${token}: “${value}” is no ${KIND_WORDS[field.kind]}; write ${exampleOf(name, field)}`);
  }
  return { kind: "figure", operator, value: figure.value, ...asked };
}

const KIND_WORDS = { time: "time with its unit", bytes: "size", count: "number" };

function textTerm(token, operator, value, asked) {
  if (operator === ":") return { kind: "has", value, ...asked };
  if (operator === "=") return { kind: "is", value, ...asked };
  throw new QueryError(`${token}: “${asked.name}” is a text; write ${asked.name}:${value}`);
}

function plainComparison(token, operator, value, grammar) {
  const figure = readFigure(value);
  if (!figure) {
    throw new QueryError(
      `${token}: “${value}” is no figure; write ${operator}1ms, or "${token}" for the text`);
  }
  const name = grammar.plain[figure.unit];
  if (!name) {
    throw new QueryError(`${token}: a unit or a field is missing; write ${operator}${value}ms `
      + `or runs${operator}${value}`);
  }
  return { kind: "figure", operator, value: figure.value, name, field: grammar.fields.get(name) };
}

function unknownField(token, name, grammar) {
  const known = [...grammar.fields].filter(([, f]) => !f.isAlias).map(([n]) => n).join(", ");
  return new QueryError(
    `${token}: there is no field “${name}”; there are ${known}. For the text write "${token}"`);
}

const isUnknownAsked = (field, operator, value) => value.toLowerCase() === "unknown"
  && (operator === "=" || (operator === ":" && field.kind !== "text"));

const exampleOf = (name, { kind }) =>
  (kind === "text" ? `${name}:text` : `${name}>${UNIT_EXAMPLES[kind]}`);

const unquoted = (text) => text.replaceAll('"', "");

// A figure in microseconds, bytes or ones: nothing has no unit that it would need.
function readFigure(text) {
  const parts = /^(\d[\d,]*(?:\.\d+)?|\.\d+)\s*([a-zµμ]*)$/iu.exec(text);
  if (!parts) return null;
  const number = Number(parts[1].replaceAll(",", ""));
  const unit = parts[2].toLowerCase();
  if (unit === "") return { value: number, unit: "count" };
  if (Object.hasOwn(TIME_NAMES, unit)) return { value: number * TIME_NAMES[unit], unit: "time" };
  if (Object.hasOwn(SIZE_NAMES, unit)) return { value: number * SIZE_NAMES[unit], unit: "bytes" };
  return null;
}

const fits = (figure, kind) =>
  figure.unit === kind || (figure.unit === "count" && (kind === "bytes" || figure.value === 0));

/**
 * Finds the rows for which all terms hold, and those that only an unknown value keeps from it.
 *
 * @param {Array<object>} terms What `readQuery` gave.
 * @param {{rows: number, words: Array<object>, texts: Function, figures: Function}} source The
 *   table: `words` are the columns that a word is looked for in; `texts(field)` and
 *   `figures(field)` give a field's column: a text column is `{codes, lower}`, where a code past
 *   the end of `lower`, the texts in lower case, is unknown; figures are NaN where unknown.
 * @returns {Uint8Array} For each row `HOLDS`, `FAILS` or, where a term is turned round and what it
 *   is about is unknown, `UNKNOWN`.
 */
function matching(terms, source) {
  const kept = new Uint8Array(source.rows).fill(HOLDS);
  for (const term of terms) {
    const found = rowsOf(term, source);
    for (let row = 0; row < kept.length; row += 1) {
      if (kept[row] === FAILS) continue;
      if (!term.isNegated) kept[row] = found[row] === HOLDS ? kept[row] : FAILS;
      else if (found[row] !== FAILS) kept[row] = found[row] === UNKNOWN ? UNKNOWN : FAILS;
    }
  }
  return kept;
}

/**
 * Returns the queries that find what terms leave out for want of a value: for each set of fields
 * that terms turned round ask about and that are unknown together, how many rows that is so of, and
 * what to ask for these. A row counts once.
 */
function leftOut(terms, source, kept) {
  const negated = terms.filter((term) => term.isNegated && term.field);
  const byField = [...new Map(negated.map((term) => [term.field.name, term])).values()];
  const found = byField.map((term) => rowsOf(term, source));
  const counts = new Map();
  kept.forEach((judged, row) => {
    if (judged !== UNKNOWN) return;
    const places = [...found.keys()].filter((place) => found[place][row] === UNKNOWN).join(" ");
    counts.set(places, (counts.get(places) ?? 0) + 1);
  });
  return [...counts].map(([places, count]) => {
    const asked = places.split(" ").map((place) => byField[place]);
    const isAsked = ({ field }) => asked.some((term) => term.field.name === field?.name);
    const others = terms.filter((term) =>
      !isAsked(term) || (!term.isNegated && term.kind !== "unknown"));
    const query = [
      ...others.map((term) => term.token), ...asked.map((term) => `${term.name}=unknown`),
    ].join(" ");
    return { count, headings: asked.map((term) => term.field.heading), query };
  });
}

// For each row, whether a term matches, ignoring its `-`.
function rowsOf(term, source) {
  const found = new Uint8Array(source.rows);
  if (term.kind === "word") {
    const value = term.value.toLowerCase();
    // What is written nowhere is not found, whatever else is unknown.
    const judge = (text) => (text.includes(value) ? HOLDS : FAILS);
    for (const column of source.words) markTexts(found, column, judge, FAILS);
  } else if (term.field.kind === "text") {
    const ofNone = term.kind === "unknown" ? HOLDS : UNKNOWN;
    markTexts(found, source.texts(term.field), textJudge(term), ofNone);
  } else {
    const figures = source.figures(term.field);
    const isUnknownWanted = term.kind === "unknown";
    const compare = COMPARISONS[term.operator];
    for (let row = 0; row < found.length; row += 1) {
      if (Number.isNaN(figures[row])) found[row] = isUnknownWanted ? HOLDS : UNKNOWN;
      else if (!isUnknownWanted && compare(figures[row], term.value)) found[row] = HOLDS;
    }
  }
  return found;
}

// Ids such as `no_gpu_visible` are read as words.
const plainWords = (term, value) =>
  term.field.isId ? value.replaceAll(/[_-]/g, " ") : value;

// Returns a function that judges whether a term matches a text.
function textJudge(term) {
  if (term.kind === "unknown") return (text) => (text === "unknown" ? HOLDS : FAILS);
  const value = plainWords(term, term.value.toLowerCase());
  const isAsked = (text) => (term.kind === "has" ? text.includes(value)
    : text === value || (text === "" && value === (term.field.empty ?? "none")));
  return (text) => {
    if (isAsked(text)) return HOLDS;
    return text === "unknown" ? UNKNOWN : FAILS;
  };
}

// Each text is judged once, however many rows have it; `ofNone` is for rows without a text.
function markTexts(found, { codes, lower }, judge, ofNone) {
  const hit = Uint8Array.from([...lower.map(judge), ofNone]);
  for (let row = 0; row < found.length; row += 1) {
    const judged = hit[Math.min(codes[row], lower.length)];
    if (judged !== FAILS) found[row] = judged;
  }
}
