/**
 * A stored batch as records: checks the shape and the checksum, and reads columns as typed arrays.
 *
 * Whatever the bytes are, the result is records, or InvalidArgumentError. Payloads, keys and header values are slices of
 * the batch, not copies: they keep it in memory as long as one of them is.
 */

import { InvalidArgumentError } from "../errors.js";
import { COLUMN, COLUMNS_AT, HEADER_BYTES, MAGIC } from "./batch-writer.js";
import { decompress } from "./compression.js";
import { crc32c } from "./crc32c.js";
import { BATCH_HEADERS_MAX, BATCH_RECORDS_MAX, ENTRY_BYTES_MAX, type Headers } from "./record.js";

export interface BatchHeader {
  baseOffset: number;
  count: number;
}

/** The offset of a stored batch and the count of its records, without a look at the rest. Throws InvalidArgumentError. */
export function readHeader(batch: Buffer): BatchHeader {
  if (batch.length < HEADER_BYTES) throw new InvalidArgumentError(`${batch.length} bytes are too few for a batch header`);
  if (batch.readUInt16LE(30) !== MAGIC || batch[20] !== 1) throw new InvalidArgumentError("no batch of version 1");
  if (batch.readUInt32LE(12) !== batch.length) throw new InvalidArgumentError("the batch has another length than it says");
  const count = batch.readUInt32LE(24);
  if (count < 1) throw new InvalidArgumentError("a batch holds at least one record");
  return { baseOffset: readInt64(batch, 0), count };
}

/** Byte strings by position. */
class ByteColumn {
  constructor(readonly offsets: Int32Array, readonly data: Buffer) {}

  at(position: number): Buffer {
    return this.data.subarray(this.offsets[position]!, this.offsets[position + 1]!);
  }
}

export class BatchView {
  readonly baseOffset: number;
  readonly count: number;
  readonly priority: number;
  readonly deliverAtMs: number;
  readonly #firstTimeMs: number;
  readonly #ttlMs: number;
  readonly #maxDeliveries: number;
  readonly #contentType: number;
  readonly #payloads: ByteColumn;
  #times: DataView | undefined;
  #ttls: DataView | undefined;
  #deliveries: DataView | undefined;
  #contentTypes: Buffer | undefined;
  #keys: ByteColumn | undefined;
  #validity: Buffer | undefined;
  #idempotencyKeys: ByteColumn | undefined;
  #pairs: Int32Array | undefined;
  #names: ByteColumn | undefined;
  #values: ByteColumn | undefined;
  // Where the next column begins.
  #cursor = 0;

  /** Throws InvalidArgumentError. */
  constructor(batch: Buffer) {
    const header = readHeader(batch);
    this.baseOffset = header.baseOffset;
    this.count = header.count;
    if (crc32c(batch.subarray(20)) !== batch.readUInt32LE(16)) {
      throw new InvalidArgumentError("the batch fails its checksum");
    }
    if (batch[21] !== 1) throw new InvalidArgumentError(`a batch of format ${batch[21]} has no columns to read`);
    if (header.count > BATCH_RECORDS_MAX || batch.length < COLUMNS_AT) throw new InvalidArgumentError("no batch of columns");
    this.#firstTimeMs = readInt64(batch, 32);
    const present = batch.readUInt16LE(64);
    this.priority = batch[66]!;
    this.#contentType = batch[67]!;
    const bodyBytes = batch.readUInt32LE(68);
    this.deliverAtMs = readInt64(batch, 72);
    this.#ttlMs = readInt64(batch, 80);
    this.#maxDeliveries = batch.readUInt16LE(88);
    if (present > 255) throw new InvalidArgumentError(`unknown columns ${present}`);
    let body = batch.subarray(COLUMNS_AT);
    if (batch[22]) body = decompress(batch[22], body, bodyBytes, ENTRY_BYTES_MAX);
    else if (body.length !== bodyBytes) throw new InvalidArgumentError("the batch has other columns than it says");
    this.#payloads = this.#read(body, present);
  }

  #read(body: Buffer, present: number): ByteColumn {
    const n = this.count;
    const payloadOffsets = this.#offsets(body, n);
    if (present & COLUMN.timestamps) this.#times = view(this.#take(body, 8 * n));
    if (present & COLUMN.ttls) this.#ttls = view(this.#take(body, 8 * n));
    const keyOffsets = present & COLUMN.keys ? this.#offsets(body, n) : undefined;
    if (present & COLUMN.keyValidity) this.#validity = this.#take(body, (n + 7) >> 3);
    const idempotencyOffsets = present & COLUMN.idempotencyKeys ? this.#offsets(body, n) : undefined;
    let nameOffsets: Int32Array | undefined;
    let valueOffsets: Int32Array | undefined;
    if (present & COLUMN.headers) {
      this.#pairs = this.#offsets(body, n);
      const pairs = this.#pairs[n]!;
      if (pairs > BATCH_HEADERS_MAX) throw new InvalidArgumentError(`${pairs} headers in a batch are too many`);
      nameOffsets = this.#offsets(body, pairs);
      valueOffsets = this.#offsets(body, pairs);
    }
    if (present & COLUMN.maxDeliveries) this.#deliveries = view(this.#take(body, 2 * n));
    if (present & COLUMN.contentTypes) this.#contentTypes = this.#take(body, n);
    const bytes = (offsets: Int32Array | undefined): ByteColumn | undefined =>
      offsets && new ByteColumn(offsets, this.#take(body, offsets.at(-1)!));
    this.#keys = bytes(keyOffsets);
    this.#idempotencyKeys = bytes(idempotencyOffsets);
    this.#names = bytes(nameOffsets);
    this.#values = bytes(valueOffsets);
    if (this.#cursor + payloadOffsets[n]! !== body.length) {
      throw new InvalidArgumentError("the columns do not fill the batch");
    }
    return new ByteColumn(payloadOffsets, body.subarray(this.#cursor));
  }

  #take(body: Buffer, bytes: number): Buffer {
    const end = this.#cursor + bytes;
    if (end > body.length) throw new InvalidArgumentError("the columns reach beyond the batch");
    const column = body.subarray(this.#cursor, end);
    this.#cursor = (end + 7) & -8;
    return column;
  }

  /** Offsets that begin with 0 and never decrease. */
  #offsets(body: Buffer, count: number): Int32Array {
    const column = this.#take(body, 4 * (count + 1));
    // A copy, since the batch may begin anywhere in its frame and typed arrays may not.
    const offsets = new Int32Array(count + 1);
    new Uint8Array(offsets.buffer).set(column);
    let before = 0;
    for (let at = 0; at <= count; at++) {
      const offset = offsets[at]!;
      if (offset < before) throw new InvalidArgumentError("the offsets of a column are out of order");
      before = offset;
    }
    if (offsets[0] !== 0) throw new InvalidArgumentError("the offsets of a column do not begin with 0");
    return offsets;
  }

  // One record, by position.

  payload(at: number): Buffer {
    return this.#payloads.at(at);
  }

  key(at: number): Buffer | undefined {
    if (!this.#keys || (this.#validity && !(this.#validity[at >> 3]! & (1 << (at & 7))))) return undefined;
    return this.#keys.at(at);
  }

  headers(at: number): Headers {
    if (!this.#pairs) return NO_HEADERS;
    const found: [string, Buffer][] = [];
    for (let pair = this.#pairs[at]!; pair < this.#pairs[at + 1]!; pair++) {
      found.push([this.#names!.at(pair).toString(), this.#values!.at(pair)]);
    }
    return found;
  }

  timestampMs(at: number): number {
    return this.#times ? int64(this.#times, at) : this.#firstTimeMs;
  }

  ttlMs(at: number): number {
    return this.#ttls ? int64(this.#ttls, at) : this.#ttlMs;
  }

  maxDeliveries(at: number): number {
    return this.#deliveries ? this.#deliveries.getUint16(2 * at, true) : this.#maxDeliveries;
  }

  contentType(at: number): number {
    return this.#contentTypes ? this.#contentTypes[at]! : this.#contentType;
  }

  idempotencyKey(at: number): Buffer | undefined {
    const key = this.#idempotencyKeys?.at(at);
    return key?.length ? key : undefined;
  }
}

const NO_HEADERS: Headers = [];

function view(column: Buffer): DataView {
  return new DataView(column.buffer, column.byteOffset, column.length);
}

function int64(column: DataView, at: number): number {
  return column.getUint32(8 * at, true) + column.getInt32(8 * at + 4, true) * 2 ** 32;
}

function readInt64(batch: Buffer, at: number): number {
  return batch.readUInt32LE(at) + batch.readInt32LE(at + 4) * 2 ** 32;
}
