/** Values of the contract as the client uses them: plain objects, with numbers where the contract has 64 bits. */

import { create, type DescMessage, type DescField, type Message, ScalarType } from "@bufbuild/protobuf";

import { InvalidArgumentError } from "../errors.js";

/** Ids that may use all 64 bits, and that nobody computes with. */
const OPAQUE = new Set(["leaseIds", "producerIds"]);

/** A message of the contract as callers get it. */
export type Plain<T> = T extends bigint
  ? number
  : T extends Uint8Array
    ? Uint8Array
    : T extends readonly (infer Item)[]
      ? Plain<Item>[]
      : T extends object
        ? {
            [Name in Exclude<keyof T, "$typeName" | "$unknown">]: Name extends "leaseIds" | "producerIds"
              ? bigint[]
              : Plain<T[Name]>;
          }
        : T;

/** A run of offsets under one lease, up to but without `end`. */
export interface LeaseRange {
  leaseId: bigint;
  first: number;
  end: number;
}

/** Consecutive records of one stored batch, cut out as a batch of their own, under one lease. */
export interface Delivery {
  partition: number;
  /** 0: at most once, there is nothing to settle. */
  leaseId: bigint;
  first: number;
  count: number;
  attempt: number;
  topicId: number;
  batch: Buffer;
}

export interface Deliveries {
  partitions: number[];
  leaseIds: bigint[];
  firsts: number[];
  counts: number[];
  attempts: number[];
  batchBytes: number[];
  topicIds: number[];
}

type Values = Record<string, unknown>;

/** The message of the contract with these fields. Throws InvalidArgumentError. */
export function toMessage(kind: DescMessage, fields: Values): Message {
  const message = create(kind);
  for (const field of kind.fields) {
    const value = fields[field.localName];
    if (value !== undefined) (message as unknown as Values)[field.localName] = toValue(field, value);
  }
  return message;
}

function toValue(field: DescField, value: unknown): unknown {
  if (field.fieldKind === "message") return toMessage(field.message, value as Values);
  if (field.fieldKind === "scalar") return is64(field.scalar) ? toInteger(field.localName, value) : value;
  if (field.fieldKind !== "list") return value;
  if (field.listKind === "message") return (value as Values[]).map((item) => toMessage(field.message, item));
  if (field.listKind === "scalar" && is64(field.scalar)) {
    return (value as unknown[]).map((item) => toInteger(field.localName, item));
  }
  return value;
}

function toInteger(name: string, value: unknown): bigint {
  if (typeof value === "bigint") return value;
  if (!Number.isSafeInteger(value)) throw new InvalidArgumentError(`${name}: ${String(value)} is no integer`);
  return BigInt(value as number);
}

/** The fields of a message as plain values. */
export function toPlain(kind: DescMessage, message: Message): Values {
  const found: Values = {};
  for (const field of kind.fields) {
    found[field.localName] = fromValue(field, (message as unknown as Values)[field.localName]);
  }
  return found;
}

function fromValue(field: DescField, value: unknown): unknown {
  if (value === undefined) return undefined;
  if (field.fieldKind === "message") return toPlain(field.message, value as Message);
  if (field.fieldKind === "scalar") return typeof value === "bigint" ? Number(value) : value;
  if (field.fieldKind !== "list") return value;
  if (field.listKind === "message") return (value as Message[]).map((item) => toPlain(field.message, item));
  if (field.listKind === "scalar" && is64(field.scalar) && !OPAQUE.has(field.localName)) {
    return (value as bigint[]).map(Number);
  }
  return value;
}

function is64(scalar: ScalarType): boolean {
  return scalar === ScalarType.UINT64 || scalar === ScalarType.INT64 || scalar === ScalarType.SINT64;
}

/** Runs of offsets as the contract has them: three columns of numbers. */
export function leaseColumns(ranges: readonly LeaseRange[]): { leaseIds: bigint[]; firsts: number[]; counts: number[] } {
  return {
    leaseIds: ranges.map((run) => run.leaseId),
    firsts: ranges.map((run) => run.first),
    counts: ranges.map((run) => run.end - run.first),
  };
}

export function leaseRanges(columns: { leaseIds: bigint[]; firsts: number[]; counts: number[] } | undefined): LeaseRange[] {
  if (!columns) return [];
  const { leaseIds, firsts, counts } = columns;
  if (leaseIds.length !== firsts.length || firsts.length !== counts.length) {
    throw new InvalidArgumentError("leases, offsets and counts are not equally many");
  }
  return leaseIds.map((leaseId, at) => ({ leaseId, first: firsts[at]!, end: firsts[at]! + counts[at]! }));
}

export function deliveriesOf(columns: Deliveries | undefined, attachment: Buffer): Delivery[] {
  if (!columns) return [];
  const batches = cut(attachment, columns.batchBytes);
  return batches.map((batch, at) => ({
    partition: columns.partitions[at]!,
    leaseId: columns.leaseIds[at]!,
    first: columns.firsts[at]!,
    count: columns.counts[at]!,
    attempt: columns.attempts[at]!,
    topicId: columns.topicIds[at]!,
    batch,
  }));
}

/** The batches that follow an envelope, by their announced sizes. Throws InvalidArgumentError. */
export function cut(attachment: Buffer, sizes: readonly number[]): Buffer[] {
  let at = 0;
  const batches = sizes.map((size) => attachment.subarray(at, (at += size)));
  if (at !== attachment.length) {
    throw new InvalidArgumentError(`batches of ${at} bytes are announced, ${attachment.length} bytes came`);
  }
  return batches;
}
