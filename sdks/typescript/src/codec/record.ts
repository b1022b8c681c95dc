/** A record as it travels, and its bounds. Zero and empty always mean "not set". */

import { InvalidArgumentError } from "../errors.js";

/** Names and values in order; a name may occur more than once. */
export type Headers = readonly (readonly [string, Buffer])[];

export interface WireRecord {
  payload: Uint8Array;
  /** undefined: no key. The empty key is a key like any other. */
  key?: Uint8Array;
  headers: readonly (readonly [string, Uint8Array])[];
  timestampMs: number;
  priority: number;
  contentType: number;
  deliverAtMs: number;
  ttlMs: number;
  idempotencyKey?: Uint8Array;
  maxDeliveries: number;
}

export const KIB = 1024;
export const MIB = 1024 * KIB;
export const ENTRY_BYTES_MAX = 17 * MIB;
export const FRAME_BYTES_MAX = 18 * MIB;
export const ENVELOPE_BYTES_MAX = 256 * KIB;
export const BATCH_RECORDS_MAX = 65_536;
export const BATCH_HEADERS_MAX = 262_144;
export const PAYLOAD_BYTES_MAX = 16 * MIB;
export const RESULT_BYTES_MAX = 64 * KIB;
/** The results that one request settles messages with. */
export const REQUEST_RESULTS_MAX = 1_024;
export const REQUEST_RESULTS_BYTES_MAX = 128 * KIB;
const KEY_BYTES_MAX = 64 * KIB;
const IDEMPOTENCY_KEY_BYTES_MAX = KIB;
const HEADERS_MAX = 64;
const HEADER_BYTES_MAX = 64 * KIB;

/** Throws InvalidArgumentError for a record that no broker would take: it fails alone, and not with its batch. */
export function checkRecord(record: WireRecord): void {
  within("payload bytes", record.payload.length, PAYLOAD_BYTES_MAX);
  within("key bytes", record.key?.length ?? 0, KEY_BYTES_MAX);
  within("idempotency key bytes", record.idempotencyKey?.length ?? 0, IDEMPOTENCY_KEY_BYTES_MAX);
  within("priority", record.priority, 7);
  within("contentType", record.contentType, 255);
  within("maxDeliveries", record.maxDeliveries, 65_535);
  within("timestampMs", record.timestampMs, Number.MAX_SAFE_INTEGER);
  within("deliverAt", record.deliverAtMs, Number.MAX_SAFE_INTEGER);
  within("ttlMs", record.ttlMs, Number.MAX_SAFE_INTEGER);
  within("headers", record.headers.length, HEADERS_MAX);
  let bytes = 0;
  for (const [name, value] of record.headers) bytes += Buffer.byteLength(name) + value.length;
  within("header bytes", bytes, HEADER_BYTES_MAX);
}

function within(what: string, value: number, limit: number): void {
  if (!Number.isInteger(value) || value < 0 || value > limit) {
    throw new InvalidArgumentError(`${what}: ${value} is not within 0 to ${limit}`);
  }
}
