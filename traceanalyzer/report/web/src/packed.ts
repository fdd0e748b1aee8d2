// Opens packed tables; `traceanalyzer/report/packed.py` describes their format.

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

type Raw = Uint8Array | Uint16Array | Uint32Array | Float64Array;

interface Head {
  name: string;
  type: keyof typeof ARRAYS;
  per: number;
  offset: number;
  delta: boolean;
  texts: string[] | null;
}

/** A column: raw values, the texts that they stand for, and how they become numbers. */
export class PackedColumn {
  private readonly none: number;

  constructor(readonly raw: Raw, readonly head: Pick<Head, "per" | "offset" | "texts">) {
    this.none = raw instanceof Float64Array ? NaN : 2 ** (8 * raw.BYTES_PER_ELEMENT) - 1;
  }

  get texts(): string[] | null {
    return this.head.texts;
  }

  isNone(row: number): boolean {
    return this.raw[row] === this.none || Number.isNaN(this.raw[row]);
  }

  /** Returns the number of a row; NaN if it is unknown. */
  number(row: number): number {
    return this.isNone(row) ? NaN : (this.head.offset + this.raw[row]) / this.head.per;
  }

  /** Returns the text of a row; null if it is unknown. */
  text(row: number): string | null {
    return this.isNone(row) ? null : this.head.texts![this.raw[row]];
  }
}

export interface Unpacked {
  rows: number;
  columns: Record<string, PackedColumn>;
}

/** Returns what base64 of deflated bytes holds. */
export async function inflate(base64: string): Promise<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** Opens a packed table. */
export async function unpack(base64: string): Promise<Unpacked> {
  const plain = await inflate(base64);
  const length = new DataView(plain).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(plain, 4, length))) as {
    rows: number;
    columns: Head[];
  };
  const columns: Record<string, PackedColumn> = {};
  let at = 4 + length;
  for (const head of header.columns) {
    const bytes = ARRAYS[head.type].BYTES_PER_ELEMENT * header.rows;
    const raw = joined(new Uint8Array(plain, at, bytes), head.type, header.rows);
    if (head.delta) for (let row = 1; row < raw.length; row += 1) raw[row] += raw[row - 1];
    columns[head.name] = new PackedColumn(raw, head);
    at += bytes + ((8 - (bytes % 8)) % 8);
  }
  return { rows: header.rows, columns };
}

// The planes of bytes back into values. All machines that browsers run on are little-endian.
function joined(planes: Uint8Array, type: keyof typeof ARRAYS, rows: number): Raw {
  const values = new ARRAYS[type](rows);
  const width = values.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(values.buffer);
  for (let plane = 0; plane < width; plane += 1) {
    const from = plane * rows;
    for (let row = 0, to = plane; row < rows; row += 1, to += width) bytes[to] = planes[from + row];
  }
  return values;
}
