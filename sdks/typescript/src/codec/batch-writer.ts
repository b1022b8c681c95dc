/**
 * Records to a batch: columns that grow record by record, then one buffer with header, directory and columns.
 *
 * The layout is in `docs/reference/batch-format.md`. Payloads are copied when they are added, so a caller may change its
 * bytes afterwards. A column that no record needs is not made.
 */

import { InvalidArgumentError } from "../errors.js";
import { type Compression, compress } from "./compression.js";
import { crc32c } from "./crc32c.js";
import { BATCH_HEADERS_MAX, BATCH_RECORDS_MAX, ENTRY_BYTES_MAX, type WireRecord } from "./record.js";

export const HEADER_BYTES = 64;
export const COLUMNS_AT = 96;
export const MAGIC = 0x4c46;
export const COLUMN = {
  timestamps: 1, ttls: 2, keys: 4, keyValidity: 8, idempotencyKeys: 16, headers: 32, maxDeliveries: 64, contentTypes: 128,
} as const;
const TWO_32 = 2 ** 32;

/** Byte strings side by side, with the end of each. */
class ByteColumn {
  data: Buffer;
  length = 0;
  readonly offsets: number[] = [0];

  constructor(capacity = 256) {
    this.data = Buffer.allocUnsafe(capacity);
  }

  add(bytes: Uint8Array): void {
    const end = this.length + bytes.length;
    if (end > this.data.length) this.#grow(end);
    this.data.set(bytes, this.length);
    this.length = end;
    this.offsets.push(end);
  }

  addText(text: string): void {
    const end = this.length + Buffer.byteLength(text);
    if (end > this.data.length) this.#grow(end);
    this.data.write(text, this.length);
    this.length = end;
    this.offsets.push(end);
  }

  #grow(needed: number): void {
    const grown = Buffer.allocUnsafe(Math.max(needed, this.data.length * 2));
    this.data.copy(grown, 0, 0, this.length);
    this.data = grown;
  }
}

/** A column of numbers; one value until a record differs. */
class NumberColumn {
  values: number[] | undefined;
  first = 0;

  add(value: number, count: number): void {
    if (count === 0) this.first = value;
    else if (this.values) this.values.push(value);
    else if (value !== this.first) {
      this.values = new Array<number>(count).fill(this.first);
      this.values.push(value);
    }
  }
}

export interface Numbers {
  producerId: bigint;
  epoch: number;
  sequence: number;
}

const UNNUMBERED: Numbers = { producerId: 0n, epoch: 0, sequence: 0 };

/** One unfinished batch, of records that share priority and deliver-at. */
export class BatchWriter {
  count = 0;
  #payloads: ByteColumn;
  #priority = 0;
  #deliverAtMs = 0;
  #maxTimeMs = 0;
  #times = new NumberColumn();
  #ttls = new NumberColumn();
  #deliveries = new NumberColumn();
  #contentTypes = new NumberColumn();
  #keys: ByteColumn | undefined;
  #keyless: number[] = [];
  #idempotencyKeys: ByteColumn | undefined;
  #pairs: number[] | undefined;
  #names: ByteColumn | undefined;
  #values: ByteColumn | undefined;

  constructor(capacity = 4096) {
    this.#payloads = new ByteColumn(capacity);
  }

  get payloadBytes(): number {
    return this.#payloads.length;
  }

  /** A record that has nothing but a payload and a time. */
  addPlain(payload: Uint8Array | string, timestampMs: number): void {
    if (this.#keys || this.#idempotencyKeys || this.#pairs) {
      const bytes = typeof payload === "string" ? Buffer.from(payload) : payload;
      this.add({ payload: bytes, headers: [], timestampMs, priority: this.#priority, contentType: 0,
                 deliverAtMs: this.#deliverAtMs, ttlMs: 0, maxDeliveries: 0 });
      return;
    }
    if (typeof payload === "string") this.#payloads.addText(payload);
    else this.#payloads.add(payload);
    this.#addNumbers(timestampMs, 0, 0, 0);
  }

  add(record: WireRecord): void {
    const count = this.count;
    if (count === 0) {
      this.#priority = record.priority;
      this.#deliverAtMs = record.deliverAtMs;
    } else if (this.#priority !== record.priority || this.#deliverAtMs !== record.deliverAtMs) {
      throw new InvalidArgumentError("the records of a batch share one priority and one deliver-at");
    }
    this.#payloads.add(record.payload);
    if (record.key && !this.#keys) {
      this.#keys = filled(count);
      for (let at = 0; at < count; at++) this.#keyless.push(at);
    }
    if (!record.key && this.#keys) this.#keyless.push(count);
    this.#keys?.add(record.key ?? EMPTY);
    if (record.idempotencyKey?.length && !this.#idempotencyKeys) this.#idempotencyKeys = filled(count);
    this.#idempotencyKeys?.add(record.idempotencyKey ?? EMPTY);
    if (record.headers.length && !this.#pairs) {
      this.#pairs = new Array<number>(count + 1).fill(0);
      this.#names = new ByteColumn();
      this.#values = new ByteColumn();
    }
    if (this.#pairs) {
      for (const [name, value] of record.headers) {
        this.#names!.addText(name);
        this.#values!.add(value);
      }
      this.#pairs.push(this.#names!.offsets.length - 1);
    }
    this.#addNumbers(record.timestampMs, record.ttlMs, record.maxDeliveries, record.contentType);
  }

  #addNumbers(timestampMs: number, ttlMs: number, maxDeliveries: number, contentType: number): void {
    const count = this.count++;
    this.#times.add(timestampMs, count);
    this.#ttls.add(ttlMs, count);
    this.#deliveries.add(maxDeliveries, count);
    this.#contentTypes.add(contentType, count);
    if (timestampMs > this.#maxTimeMs) this.#maxTimeMs = timestampMs;
  }

  /** The batch, without base offset and term. Throws InvalidArgumentError. */
  seal(compression: Compression = "none", numbers: Numbers = UNNUMBERED): Buffer {
    if (this.count < 1 || this.count > BATCH_RECORDS_MAX) {
      throw new InvalidArgumentError(`a batch holds 1 to ${BATCH_RECORDS_MAX} records, not ${this.count}`);
    }
    let present = 0;
    const pieces: Uint8Array[] = [i32(this.#payloads.offsets)];
    const put = (column: number, bytes: Uint8Array): void => {
      present |= column;
      pieces.push(bytes);
    };
    if (this.#times.values) put(COLUMN.timestamps, i64(this.#times.values));
    if (this.#ttls.values) put(COLUMN.ttls, i64(this.#ttls.values));
    if (this.#keys) put(COLUMN.keys, i32(this.#keys.offsets));
    if (this.#keyless.length) put(COLUMN.keyValidity, this.#validity());
    if (this.#idempotencyKeys) put(COLUMN.idempotencyKeys, i32(this.#idempotencyKeys.offsets));
    if (this.#pairs) {
      if (this.#pairs.at(-1)! > BATCH_HEADERS_MAX) throw new InvalidArgumentError("a batch has too many headers");
      put(COLUMN.headers, i32(this.#pairs));
      put(COLUMN.headers, i32(this.#names!.offsets));
      put(COLUMN.headers, i32(this.#values!.offsets));
    }
    if (this.#deliveries.values) put(COLUMN.maxDeliveries, bytesOf(Uint16Array.from(this.#deliveries.values)));
    if (this.#contentTypes.values) put(COLUMN.contentTypes, Uint8Array.from(this.#contentTypes.values));
    for (const column of [this.#keys, this.#idempotencyKeys, this.#names, this.#values]) {
      if (column) pieces.push(column.data.subarray(0, column.length));
    }
    // The payloads are last, and nothing pads them.
    let bodyBytes = this.#payloads.length;
    for (const piece of pieces) bodyBytes += (piece.length + 7) & -8;
    if (bodyBytes > ENTRY_BYTES_MAX - COLUMNS_AT) {
      throw new InvalidArgumentError(`columns of ${bodyBytes} bytes are too many for one batch`);
    }
    const batch = Buffer.allocUnsafe(COLUMNS_AT + bodyBytes);
    let at = COLUMNS_AT;
    for (const piece of pieces) {
      batch.set(piece, at);
      const end = at + piece.length;
      at += (piece.length + 7) & -8;
      batch.fill(0, end, at);
    }
    this.#payloads.data.copy(batch, at, 0, this.#payloads.length);
    return this.#finish(batch, present, compression, numbers);
  }

  #finish(plain: Buffer, present: number, compression: Compression, numbers: Numbers): Buffer {
    const [used, body] = compress(compression, plain.subarray(COLUMNS_AT));
    const batch = used ? Buffer.concat([plain.subarray(0, COLUMNS_AT), body]) : plain;
    batch.fill(0, 0, COLUMNS_AT);
    batch.writeUInt32LE(batch.length, 12);
    batch[20] = 1;
    batch[21] = 1;
    batch[22] = used;
    batch.writeUInt32LE(this.count, 24);
    batch.writeUInt16LE(MAGIC, 30);
    writeInt64(batch, this.#times.first, 32);
    writeInt64(batch, this.#maxTimeMs, 40);
    batch.writeUInt16LE(present, 64);
    batch[66] = this.#priority;
    batch[67] = this.#contentTypes.values ? 0 : this.#contentTypes.first;
    batch.writeUInt32LE(plain.length - COLUMNS_AT, 68);
    writeInt64(batch, this.#deliverAtMs, 72);
    writeInt64(batch, this.#ttls.values ? 0 : this.#ttls.first, 80);
    batch.writeUInt16LE(this.#deliveries.values ? 0 : this.#deliveries.first, 88);
    renumber(batch, numbers);
    return batch;
  }

  #validity(): Uint8Array {
    const bits = new Uint8Array((this.count + 7) >> 3);
    for (let at = 0; at < this.count; at++) bits[at >> 3]! |= 1 << (at & 7);
    for (const at of this.#keyless) bits[at >> 3]! &= ~(1 << (at & 7));
    return bits;
  }
}

/** Gives a sealed batch other numbers, and its checksum anew. */
export function renumber(batch: Buffer, numbers: Numbers): void {
  batch.writeUInt16LE(numbers.epoch, 28);
  batch.writeBigUInt64LE(numbers.producerId, 48);
  batch.writeUInt32LE(numbers.sequence, 56);
  batch.writeUInt32LE(crc32c(batch.subarray(20)), 16);
}

/** One batch of these records. Throws InvalidArgumentError. */
export function encodeBatch(records: readonly WireRecord[], compression: Compression, numbers?: Numbers): Buffer {
  const writer = new BatchWriter();
  for (const record of records) writer.add(record);
  return writer.seal(compression, numbers);
}

const EMPTY = new Uint8Array();

function filled(count: number): ByteColumn {
  const column = new ByteColumn();
  for (let at = 0; at < count; at++) column.offsets.push(0);
  return column;
}

function bytesOf(numbers: Int32Array | Uint16Array | Uint32Array): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}

function i32(offsets: number[]): Uint8Array {
  return bytesOf(Int32Array.from(offsets));
}

function i64(values: number[]): Uint8Array {
  const words = new Uint32Array(values.length * 2);
  for (let at = 0; at < values.length; at++) {
    words[2 * at] = values[at]! % TWO_32;
    words[2 * at + 1] = Math.floor(values[at]! / TWO_32);
  }
  return bytesOf(words);
}

function writeInt64(batch: Buffer, value: number, at: number): void {
  batch.writeUInt32LE(value % TWO_32, at);
  batch.writeUInt32LE(Math.floor(value / TWO_32), at + 4);
}
