/** Records from the arguments of `produce`: payload, key and optional fields. */

import { checkRecord, type WireRecord } from "../codec/record.js";
import { InvalidArgumentError } from "../errors.js";

/** Text is written as UTF-8. */
export type Bytes = Uint8Array | string;
/** Ordered; a name may occur more than once. */
export type HeadersInit = Readonly<Record<string, Bytes>> | Iterable<readonly [string, Bytes]>;

/** The optional fields of a record. */
export interface RecordFields {
  /** Records of one key are in one partition, in order. */
  key?: Bytes;
  headers?: HeadersInit;
  /** 0 to 7; a higher one is delivered earlier. */
  priority?: number;
  /** A ContentType, or a code of your own from 128 to 255. */
  contentType?: number;
  /** Not delivered to queue groups before this delay is over, by the clock of the brokers. */
  delayMs?: number;
  /** Or not before this time; a number is milliseconds since 1970. */
  deliverAt?: Date | number;
  /** Expires after this time, counted from now, or from `timestampMs` if that is given. */
  ttlMs?: number;
  /** Stored once, however often it is sent within the topic's window. */
  idempotencyKey?: Bytes;
  /** Attempts before the dead-letter topic. */
  maxDeliveries?: number;
  /** When it was made; by default now, by the clock of this machine. */
  timestampMs?: number;
  /** The partition; by default that of the key, else any. */
  partition?: number;
}

/** One record of many. */
export interface RecordInit extends RecordFields {
  payload: Bytes;
}

/** Codes that every SDK knows. Codes from 128 on belong to the user. */
export const ContentType = { bytes: 0, text: 1, json: 2, protobuf: 3, avro: 4, arrow: 5 } as const;

export function toBytes(value: Bytes): Uint8Array {
  if (typeof value === "string") return Buffer.from(value);
  if (!(value instanceof Uint8Array)) throw new InvalidArgumentError(`bytes are a Uint8Array or text, not ${typeof value}`);
  return value;
}

export function headerPairs(headers: HeadersInit): [string, Uint8Array][] {
  const pairs = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  return pairs.map(([name, value]) => [name, toBytes(value)]);
}

/** `aheadMs`: how far the brokers' clock is ahead of ours. Throws InvalidArgumentError. */
export function makeRecord(payload: Bytes, fields: RecordFields, aheadMs: number): WireRecord {
  const nowMs = Date.now();
  const record: WireRecord = {
    payload: toBytes(payload),
    key: fields.key === undefined ? undefined : toBytes(fields.key),
    headers: fields.headers ? headerPairs(fields.headers) : [],
    timestampMs: fields.timestampMs ?? nowMs,
    priority: fields.priority ?? 0,
    contentType: fields.contentType ?? ContentType.bytes,
    deliverAtMs: deliverAtMs(fields, nowMs + aheadMs),
    ttlMs: fields.ttlMs ?? 0,
    idempotencyKey: fields.idempotencyKey === undefined ? undefined : toBytes(fields.idempotencyKey),
    maxDeliveries: fields.maxDeliveries ?? 0,
  };
  checkRecord(record);
  if (record.ttlMs && aheadMs && fields.timestampMs === undefined) {
    // It counts from our clock and ends by the brokers'. A ttl cannot be negative: then the timestamp is corrected.
    if (record.ttlMs + aheadMs > 0) record.ttlMs += aheadMs;
    else record.timestampMs += aheadMs;
  }
  return record;
}

function deliverAtMs(fields: RecordFields, nowMs: number): number {
  const { delayMs = 0, deliverAt } = fields;
  if (delayMs < 0) throw new InvalidArgumentError(`delayMs is at least 0, not ${delayMs}`);
  if (deliverAt === undefined) return delayMs ? nowMs + delayMs : 0;
  if (delayMs) throw new InvalidArgumentError("say either delayMs or deliverAt");
  return typeof deliverAt === "number" ? deliverAt : deliverAt.getTime();
}
