// Opens the tables that the page holds packed; `report/packed.py` says how they are written.

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };
const opened = new Map();

/** Returns the packed table of a name, opened once; null where the page has none. */
function packedTable(name) {
  if (!opened.has(name)) {
    const holder = document.getElementById(`data-${name}`);
    opened.set(name, holder ? open(holder.textContent.trim()) : Promise.resolve(null));
  }
  return opened.get(name);
}

async function open(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const plain = await new Response(stream).arrayBuffer();
  const length = new DataView(plain).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(plain, 4, length)));
  let at = 4 + length;
  const columns = {};
  for (const head of header.columns) {
    const Kind = ARRAYS[head.type];
    const width = Kind.BYTES_PER_ELEMENT;
    const size = width * header.rows;
    columns[head.name] = column(joined(new Uint8Array(plain, at, size), Kind, header.rows), head);
    at += size + ((8 - (size % 8)) % 8);
  }
  return { rows: header.rows, columns };
}

// The planes of bytes back into values. All machines that browsers run on are little-endian.
function joined(planes, Kind, rows) {
  const width = Kind.BYTES_PER_ELEMENT;
  if (width === 1) return planes.slice();
  const values = new Kind(rows);
  const bytes = new Uint8Array(values.buffer);
  for (let plane = 0; plane < width; plane += 1) {
    const from = plane * rows;
    for (let row = 0, to = plane; row < rows; row += 1, to += width) bytes[to] = planes[from + row];
  }
  return values;
}

// A column: `raw` values, `none` the one that stands for unknown, and what they mean.
function column(raw, head) {
  if (head.delta) for (let row = 1; row < raw.length; row += 1) raw[row] += raw[row - 1];
  const none = raw instanceof Float64Array ? NaN : 2 ** (8 * raw.BYTES_PER_ELEMENT) - 1;
  const { per, offset, texts } = head;
  const isNone = (row) => raw[row] === none || raw[row] !== raw[row];
  return {
    raw,
    texts,
    per,
    offset,
    isNone,
    /** Returns the number or text of a row, null where it is unknown. */
    at(row) {
      if (isNone(row)) return null;
      return texts ? texts[raw[row]] : (offset + raw[row]) / per;
    },
  };
}
