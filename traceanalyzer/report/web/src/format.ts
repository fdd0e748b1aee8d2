// Figures and names, written as `traceanalyzer/format.py` and `report/text.py` write them.

export type Unit = "us" | "bytes" | "share" | "count" | "bytes_per_s";
type Scale = readonly (readonly [string, number])[];

export const TIMES: Scale = [["µs", 1], ["ms", 1e3], ["s", 1e6]];
const SIZES: Scale = [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]];

// Characters that do not show, or that act on the text around them.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
// More marks upon one letter than any script needs.
const HEAPED =
  /[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]{7,}/gu;
const MARKS = 6;

const codePoint = (character: string): string =>
  `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** Returns a text with each character that does not show replaced by its code point. */
export function visible(text: string): string {
  return text.replace(HIDDEN, codePoint).replace(HEAPED, (marks) =>
    marks.slice(0, MARKS) + [...marks.slice(MARKS)].map(codePoint).join(""));
}

/** Returns a name, its middle left out if it is long: a scope begins it, the op's name ends it. */
export function cut(text: string, length = 96): string {
  const short = text.length > 8000 ? `${text.slice(0, 4000)}…${text.slice(-4000)}` : text;
  const characters = [...visible(short)];
  if (characters.length <= length) return characters.join("");
  const head = Math.floor((length - 1) / 2);
  const tail = length - 1 - head;
  return `${characters.slice(0, head).join("")}…${characters.slice(-tail).join("")}`;
}

// A number with so many decimals and its thousands apart. Halves go to the even digit, as Python
// rounds; nothing is "-0".
function fixed(value: number, decimals: number): string {
  const exact = Math.abs(value).toFixed(decimals + 20);
  let text = Math.abs(value).toFixed(decimals);
  if (exact.endsWith(`5${"0".repeat(19)}`)) {
    const below = exact.slice(0, -20).replace(/\.$/, "");
    if ("02468".includes(below.at(-1)!)) text = below;
  }
  const [whole, ...rest] = text.split(".");
  const figure = [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
  return value < 0 && /[1-9]/.test(figure) ? `-${figure}` : figure;
}

function threeDigits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (value > 0 && size < 0.0005) return "<0.001";
  if (size < 0.9995) return fixed(value, 3);
  if (size < 9.995) return fixed(value, 2);
  if (size < 99.95) return fixed(value, 1);
  return fixed(value, 0);
}

function scaled(value: number, scale: Scale): string {
  const fitting = scale.slice(0, -1).find(([, f]) => Math.round(Math.abs(value) / f) < 1000);
  const [unit, factor] = fitting ?? scale[scale.length - 1];
  return `${threeDigits(value / factor)}\u00a0${unit}`;
}

/** Returns a number with its thousands apart. */
export const count = (number: number): string =>
  number.toLocaleString("en-US", { maximumFractionDigits: 3 });

/** Returns microseconds in the unit that suits their size. */
export const duration = (us: number): string => scaled(us, TIMES);

/** Returns bytes; 1 kB is 1000 bytes. */
export const size = (bytes: number): string =>
  bytes < 1000 ? `${fixed(bytes, 0)}\u00a0B` : scaled(bytes, SIZES);

/** Returns a fraction in percent; only 0 is 0 % and only 1 is 100 %. */
export function share(part: number): string {
  const percent = part * 100;
  if (percent === 0 || percent === 100) return `${fixed(percent, 0)}\u00a0%`;
  if (percent > 0 && percent < 0.05) return "<0.1\u00a0%";
  if (percent >= 99.95 && percent < 100) return ">99.9\u00a0%";
  return `${fixed(percent, 1)}\u00a0%`;
}

/** Returns a figure of a unit, with three digits. */
export function quantity(value: number, unit: Unit): string {
  if (unit === "us") return duration(value);
  if (unit === "bytes") return size(value);
  if (unit === "share") return share(value);
  return unit === "bytes_per_s" ? `${size(value)}/s` : count(value);
}

/** Returns a figure in full. */
export function exact(value: number, unit: Unit): string {
  if (unit === "us") return `${count(value)}\u00a0µs`;
  if (unit === "bytes") return `${count(value)}\u00a0bytes`;
  return quantity(value, unit);
}

/** Returns a number with its noun. */
export const counted = (number: number, noun: string): string =>
  `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
