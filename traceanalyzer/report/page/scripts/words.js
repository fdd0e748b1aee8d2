// Figures and names as the rest of the page has them: as `report/text.py` writes them.

const TIME_UNITS = [["µs", 1], ["ms", 1e3], ["s", 1e6]];
const SIZE_UNITS = [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]];

// Characters that do not show, or that act on the text around them.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

// More marks upon one letter than any script needs.
const HEAPED = /[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]{7,}/gu;
const MARKS = 6;

function codePoint(character) {
  return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Returns a text with each character that does not show replaced by its code point. */
function visible(text) {
  return String(text).replace(HIDDEN, codePoint).replace(HEAPED, (marks) =>
    marks.slice(0, MARKS) + [...marks.slice(MARKS)].map(codePoint).join(""));
}

/** Returns a name, its middle left out where it is long: both ends tell. */
function cutName(text, length = 96) {
  const characters = [...visible(text.length > 8000 ? cutRaw(text, 8000) : text)];
  if (characters.length <= length) return characters.join("");
  const head = Math.floor((length - 1) / 2);
  const tail = length - 1 - head;
  return `${characters.slice(0, head).join("")}…${characters.slice(-tail).join("")}`;
}

/** Returns the title of a name that is shown so: the whole of it, or null where that is shown. */
function wholeName(name, shown) {
  const whole = cutName(name, 2000);
  return whole === shown ? null : whole;
}

// Too long to check character by character.
function cutRaw(text, length) {
  return `${text.slice(0, length / 2)}…${text.slice(-length / 2)}`;
}

// A number with so many decimals and its thousands apart. Halves go to the even digit, as Python
// rounds; nothing is "-0".
function fixedText(value, decimals) {
  const exact = Math.abs(value).toFixed(decimals + 20);
  let text = Math.abs(value).toFixed(decimals);
  if (exact.endsWith(`5${"0".repeat(19)}`)) {
    const below = exact.slice(0, -20).replace(/\.$/, "");
    if ("02468".includes(below.at(-1))) text = below;
  }
  const [whole, ...rest] = text.split(".");
  const figure = [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
  return value < 0 && /[1-9]/.test(figure) ? `-${figure}` : figure;
}

function threeDigits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (value > 0 && size < 0.0005) return "<0.001";
  if (size < 0.9995) return fixedText(value, 3);
  if (size < 9.995) return fixedText(value, 2);
  if (size < 99.95) return fixedText(value, 1);
  return fixedText(value, 0);
}

function scaled(value, units) {
  const fitting = units.slice(0, -1).find(([, factor]) => Math.round(Math.abs(value) / factor) < 1000);
  const [unit, factor] = fitting ?? units[units.length - 1];
  return [threeDigits(value / factor), unit];
}

/** Returns a number with its thousands apart. */
function countText(number) {
  return (number || 0).toLocaleString("en-US", { maximumFractionDigits: 3 });
}

/** Returns microseconds as [figure, unit]. */
function durationParts(us) {
  return scaled(us, TIME_UNITS);
}

/** Returns bytes as [figure, unit]; 1 kB is 1000 bytes. */
function sizeParts(bytes) {
  return bytes < 1000 ? [fixedText(bytes, 0), "B"] : scaled(bytes, SIZE_UNITS);
}

/** Returns a fraction as [figure, "%"]; only nothing is 0 % and only everything 100 %. */
function shareParts(part) {
  const percent = part * 100;
  if (percent === 0 || percent === 100) return [fixedText(percent, 0), "%"];
  if (percent > 0 && percent < 0.05) return ["<0.1", "%"];
  if (percent >= 99.95 && percent < 100) return [">99.9", "%"];
  return [fixedText(percent, 1), "%"];
}

/** Returns figure and unit held together by a no-break space. */
function quantity([figure, unit]) {
  return unit ? `${figure}\u00a0${unit}` : figure;
}

/** Returns the link to an id of the trace; addresses cannot hold half a surrogate pair. */
function addressOf(kind, id) {
  return `#${kind}-${encodeURIComponent(String(id).replace(/\p{Cs}/gu, "\ufffd"))}`;
}
