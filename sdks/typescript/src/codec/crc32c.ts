/** CRC32C: `@node-rs/crc32` where it is installed, else tables that take eight bytes a step. */

type Checksum = (data: Uint8Array, before?: number) => number;

const POLYNOMIAL = 0x82f63b78;
const TABLES = Array.from({ length: 8 }, () => new Int32Array(256));
for (let byte = 0; byte < 256; byte++) {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  TABLES[0]![byte] = crc;
}
for (let byte = 0; byte < 256; byte++) {
  for (let table = 1; table < 8; table++) {
    const before = TABLES[table - 1]![byte]!;
    TABLES[table]![byte] = (before >>> 8) ^ TABLES[0]![before & 255]!;
  }
}
const [T0, T1, T2, T3, T4, T5, T6, T7] = TABLES as [
  Int32Array, Int32Array, Int32Array, Int32Array, Int32Array, Int32Array, Int32Array, Int32Array,
];

/** The checksum by tables; `before` is that of the bytes in front. */
export function crc32cByTable(data: Uint8Array, before = 0): number {
  let crc = ~before;
  let at = 0;
  for (const end = data.length - 7; at < end; at += 8) {
    crc ^= data[at]! | (data[at + 1]! << 8) | (data[at + 2]! << 16) | (data[at + 3]! << 24);
    crc =
      T7[crc & 255]! ^ T6[(crc >>> 8) & 255]! ^ T5[(crc >>> 16) & 255]! ^ T4[crc >>> 24]! ^
      T3[data[at + 4]!]! ^ T2[data[at + 5]!]! ^ T1[data[at + 6]!]! ^ T0[data[at + 7]!]!;
  }
  for (; at < data.length; at++) crc = (crc >>> 8) ^ T0[(crc ^ data[at]!) & 255]!;
  return ~crc >>> 0;
}

async function installed(): Promise<Checksum> {
  try {
    const name = "@node-rs/crc32";
    const { crc32c } = (await import(name)) as { crc32c: Checksum };
    return crc32c;
  } catch {
    return crc32cByTable;
  }
}

export const crc32c: Checksum = await installed();
