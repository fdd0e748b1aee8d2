// The small language in which a reader asks for rows: words, `field:value`, `field=value` and
// `field>1ms`, each negated by a `-` before it. All terms must match. No term matches an unknown
// value, negated or not: the page says how many rows are left out for that.

export type FieldKind = "text" | "us" | "bytes" | "count" | "share";

export interface Field {
  name: string;
  title: string;
  kind: FieldKind;
  isAlias?: boolean;
}

export interface Grammar {
  fields: Map<string, Field>;
  /** For each kind of figure, the field that a comparison without a field is about. */
  plain: Partial<Record<FieldKind, Field>>;
}

interface Asked {
  kind: "word" | "has" | "is" | "figure" | "unknown";
  field?: Field;
  operator?: Operator;
  text?: string;
  number?: number;
}

export interface Term extends Asked {
  token: string;
  isNegated: boolean;
}

/** A column of texts by code; a code past the end of the texts, in lower case, is unknown. */
export interface Texts {
  codes: ArrayLike<number>;
  lower: string[];
}

export interface Source {
  rows: number;
  /** The columns in which words are looked for. */
  words: Texts[];
  texts(field: Field): Texts;
  /** Figures, NaN where unknown. */
  figures(field: Field): Float64Array;
}

const TIMES: Record<string, number> = { ns: 1e-3, us: 1, "µs": 1, "μs": 1, ms: 1e3, s: 1e6 };
const SIZES: Record<string, number> = {
  b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30,
};
const COMPARISONS = {
  ">": (a: number, b: number) => a > b,
  "<": (a: number, b: number) => a < b,
  ">=": (a: number, b: number) => a >= b,
  "<=": (a: number, b: number) => a <= b,
  "=": (a: number, b: number) => a === b,
};
type Operator = keyof typeof COMPARISONS;
const EXAMPLES = { us: "1ms", bytes: "1MB", count: "10", share: "10%" };
const KINDS = { us: "a time with its unit", bytes: "a size", count: "a number", share: "a share" };

// Whether a term holds for a row.
export const FAILS = 0;
export const HOLDS = 1;
export const UNKNOWN = 2;

/** A query that cannot be understood; the message says what to write instead. */
export class QueryError extends Error {}

/** Reads a query into its terms. */
export function readQuery(text: string, grammar: Grammar): Term[] {
  const tokens = text.match(/(?:[^\s"]|"[^"]*(?:"|$))+/g) ?? [];
  return tokens.map((token) => {
    if ((token.split('"').length - 1) % 2) {
      throw new QueryError(`${token}: the quote is not closed; write ${token}"`);
    }
    const isNegated = token.length > 1 && token.startsWith("-");
    return { token, isNegated, ...readTerm(isNegated ? token.slice(1) : token, grammar) };
  });
}

function readTerm(token: string, grammar: Grammar): Asked {
  const parts = /^((?:\p{L}[\p{L}\p{N}_-]*)?)(>=|<=|:|>|<|=)(.*)$/su.exec(token);
  const isWord = !parts || (parts[2] === ":" && (parts[1] === "" || parts[3].startsWith(":")));
  if (isWord) return { kind: "word", text: unquoted(token).toLowerCase() };
  const [, name, operator, rest] = parts;
  const value = unquoted(rest);
  if (name === "") return plainComparison(token, operator as Operator, value, grammar);
  const field = grammar.fields.get(name.toLowerCase());
  if (!field) throw unknownField(token, name, grammar);
  if (value === "" && operator !== "=") {
    throw new QueryError(`${token}: a value is missing; write ${exampleOf(name, field)}`);
  }
  const isUnknown = value.toLowerCase() === "unknown"
    && (operator === "=" || (operator === ":" && field.kind !== "text"));
  if (isUnknown) return { kind: "unknown", field };
  if (field.kind === "text") return textTerm(token, operator, value, field, name);
  if (operator === ":") {
    throw new QueryError(`${token}: “${name}” is a figure; write ${exampleOf(name, field)}`);
  }
  const figure = readFigure(value);
  if (!figure || !fits(figure, field.kind)) {
    throw new QueryError(
      `${token}: “${value}” is not ${KINDS[field.kind]}; write ${exampleOf(name, field)}`);
  }
  return { kind: "figure", operator: operator as Operator, number: figure.value, field };
}

function textTerm(token: string, operator: string, value: string, field: Field, name: string): Asked {
  if (operator === ":") return { kind: "has", text: value.toLowerCase(), field };
  if (operator === "=") return { kind: "is", text: value.toLowerCase(), field };
  throw new QueryError(`${token}: “${name}” is a text; write ${name}:${value}`);
}

function plainComparison(token: string, operator: Operator, value: string, grammar: Grammar): Asked {
  const figure = readFigure(value);
  if (!figure) {
    throw new QueryError(
      `${token}: “${value}” is not a figure; write ${operator}1ms, or "${token}" for the text`);
  }
  const field = figure.unit === "count" ? undefined : grammar.plain[figure.unit];
  if (!field) {
    throw new QueryError(`${token}: a unit or a field is missing; write ${operator}${value}ms`);
  }
  return { kind: "figure", operator, number: figure.value, field };
}

function unknownField(token: string, name: string, grammar: Grammar): QueryError {
  const known = [...grammar.fields].filter(([, f]) => !f.isAlias).map(([n]) => n).join(", ");
  return new QueryError(
    `${token}: there is no field “${name}”; there are ${known}. For the text write "${token}"`);
}

const exampleOf = (name: string, { kind }: Field): string =>
  (kind === "text" ? `${name}:text` : `${name}>${EXAMPLES[kind]}`);

const unquoted = (text: string): string => text.replaceAll('"', "");

interface Figure {
  value: number;
  unit: Exclude<FieldKind, "text">;
}

// A figure in microseconds, bytes, shares or ones.
function readFigure(text: string): Figure | null {
  const parts = /^(\d[\d,]*(?:\.\d+)?|\.\d+)\s*([a-zµμ]*|%)$/iu.exec(text);
  if (!parts) return null;
  const number = Number(parts[1].replaceAll(",", ""));
  const unit = parts[2].toLowerCase();
  if (unit === "") return { value: number, unit: "count" };
  if (unit === "%") return { value: number / 100, unit: "share" };
  if (Object.hasOwn(TIMES, unit)) return { value: number * TIMES[unit], unit: "us" };
  if (Object.hasOwn(SIZES, unit)) return { value: number * SIZES[unit], unit: "bytes" };
  return null;
}

const fits = (figure: Figure, kind: FieldKind): boolean =>
  figure.unit === kind || (figure.unit === "count" && (kind === "bytes" || figure.value === 0));

/**
 * Returns for each row whether all terms hold: `HOLDS`, `FAILS` or, if a negated term is about an
 * unknown value, `UNKNOWN`.
 */
export function matching(terms: Term[], source: Source): Uint8Array {
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

/** Returns how many rows negated terms leave out because their field is unknown. */
export const leftOut = (kept: Uint8Array): number =>
  kept.reduce((sum, judged) => sum + Number(judged === UNKNOWN), 0);

// For each row, whether a term matches, ignoring its `-`.
function rowsOf(term: Term, source: Source): Uint8Array {
  const found = new Uint8Array(source.rows);
  if (!term.field) {
    const judge = (text: string): number => (text.includes(term.text!) ? HOLDS : FAILS);
    for (const column of source.words) markTexts(found, column, judge, FAILS);
  } else if (term.field.kind === "text") {
    const ofNone = term.kind === "unknown" ? HOLDS : UNKNOWN;
    markTexts(found, source.texts(term.field), textJudge(term), ofNone);
  } else {
    const figures = source.figures(term.field);
    const isUnknownWanted = term.kind === "unknown";
    const compare = COMPARISONS[term.operator ?? "="];
    for (let row = 0; row < found.length; row += 1) {
      if (Number.isNaN(figures[row])) found[row] = isUnknownWanted ? HOLDS : UNKNOWN;
      else if (!isUnknownWanted && compare(figures[row], term.number!)) found[row] = HOLDS;
    }
  }
  return found;
}

function textJudge({ kind, text }: Term): (text: string) => number {
  if (kind === "unknown") return (cell) => (cell === "unknown" ? HOLDS : FAILS);
  const isAsked = (cell: string): boolean => (kind === "has" ? cell.includes(text!) : cell === text
    || (cell === "" && text === "none"));
  return (cell) => {
    if (isAsked(cell)) return HOLDS;
    return cell === "unknown" ? UNKNOWN : FAILS;
  };
}

// Each text is judged once, however many rows have it; `ofNone` is for rows without a text.
function markTexts(
  found: Uint8Array,
  { codes, lower }: Texts,
  judge: (text: string) => number,
  ofNone: number,
): void {
  const hit = Uint8Array.from([...lower.map(judge), ofNone]);
  for (let row = 0; row < found.length; row += 1) {
    const judged = hit[Math.min(codes[row], lower.length)];
    if (judged !== FAILS) found[row] = judged;
  }
}
