/**
 * Records of one producer that have no answer: gathered into batches, within a bound on memory.
 *
 * Records are gathered by partition, priority and deliver-at, which a batch has in common; the order of sending is kept
 * among records that share all three.
 */

import { crc32c } from "../codec/crc32c.js";
import { PAYLOAD_BYTES_MAX, type WireRecord } from "../codec/record.js";
import type { Topic } from "../core/routes.js";
import { steadyMs } from "../core/time.js";
import { InvalidArgumentError } from "../errors.js";
import type { ProducerOptions } from "./options.js";
import { PendingBatch } from "./pending-batch.js";

/** A batch of more records had better linger: its sender is so busy that it soon has many more. */
const PROMPT_COUNT_MAX = 64;
/** What a record costs beyond its bytes, roughly. */
const RECORD_BYTES = 64;

/** The partition of a keyed record: the same in every SDK and every version. */
export function partitionOf(key: Uint8Array, partitions: number): number {
  return crc32c(key) % partitions;
}

export function recordBytes(record: WireRecord): number {
  let bytes = RECORD_BYTES + record.payload.length + (record.key?.length ?? 0) + (record.idempotencyKey?.length ?? 0);
  for (const [name, value] of record.headers) bytes += name.length + value.length;
  return bytes;
}

export class RecordBuffer {
  /** 0 until the topic is known; nothing can be added before. */
  partitions = 0;
  keyPartitions = 0;
  topicId = 0;
  /** Of records without an answer. */
  usedBytes = 0;
  /** Every batch without an answer. */
  readonly unresolved = new Set<PendingBatch>();
  /** When `take` must be called again although nothing is added and no lane gets room. Set by `take`. */
  nextDueMs = Infinity;
  // Batches that still take records, the oldest first, and those that are full.
  readonly #open = new Map<string, PendingBatch>();
  #full: PendingBatch[] = [];
  // The open batch that takes the next plain payload.
  #plain: PendingBatch | undefined;
  // Of records without a key: the same partition until a batch is full or leaves, then the next.
  #sticky = Math.floor(Math.random() * 2 ** 31);

  constructor(readonly topic: string, readonly options: ProducerOptions) {}

  /** Takes over the partitions of the topic, which may have grown, or may be another one of its name. */
  adapt(topic: Topic): void {
    if (topic.topicId !== this.topicId) for (const batch of [...this.#open.values()]) this.#seal(batch);
    this.partitions = topic.partitions.length;
    this.keyPartitions = topic.keyPartitions || this.partitions;
    this.topicId = topic.topicId;
  }

  /** Whether a record fits the bound; an empty buffer takes a record of any size. */
  canTake(sizeBytes: number): boolean {
    if (!this.partitions) return false;
    return this.usedBytes + sizeBytes <= this.options.bufferBytesMax || !this.usedBytes;
  }

  get isWaiting(): boolean {
    return this.#open.size > 0 || this.#full.length > 0;
  }

  get hasFull(): boolean {
    return this.#full.length > 0;
  }

  /** The batch whose last record is now this payload, without key or other fields; undefined: it takes an `add`. */
  append(payload: Uint8Array | string): PendingBatch | undefined {
    const batch = this.#plain;
    if (!batch || batch.count >= this.options.batchRecords - 1) return undefined;
    // Text may take up to three bytes a character.
    const isText = typeof payload === "string";
    const bytes = isText ? payload.length * 3 : payload.length;
    const usedBytes = this.usedBytes + bytes + RECORD_BYTES;
    if (batch.sizeBytes + bytes + RECORD_BYTES > this.options.batchBytes) return undefined;
    if (usedBytes > this.options.bufferBytesMax || bytes > PAYLOAD_BYTES_MAX) return undefined;
    if (!isText && !(payload instanceof Uint8Array)) return undefined;
    const writer = batch.writer!;
    const before = writer.payloadBytes;
    writer.addPlain(payload, Date.now());
    const sizeBytes = writer.payloadBytes - before + RECORD_BYTES;
    batch.count++;
    batch.sizeBytes += sizeBytes;
    this.usedBytes += sizeBytes;
    return batch;
  }

  /** The batch whose last record this is now. Throws InvalidArgumentError. */
  add(record: WireRecord, sizeBytes: number, partition: number | undefined, timeoutMs: number): PendingBatch {
    if (partition !== undefined && !(partition >= 0 && partition < this.partitions)) {
      throw new InvalidArgumentError(`there is no partition ${partition}, only ${this.partitions} of them`);
    }
    const { options } = this;
    const idempotencyKey = record.idempotencyKey?.length ? Buffer.from(record.idempotencyKey).toString("latin1") : "";
    for (;;) {
      const number = partition ?? this.#choose(record);
      const place = `${number}/${record.priority}/${record.deliverAtMs}`;
      let batch = this.#open.get(place);
      if (batch && (batch.sizeBytes + sizeBytes > options.batchBytes || batch.keys.has(idempotencyKey))) {
        this.#seal(batch);
        continue;
      }
      const deadlineMs = steadyMs() + timeoutMs;
      if (!batch) {
        batch = new PendingBatch(number, place, steadyMs(), deadlineMs);
        batch.topic = this.topic;
        batch.topicId = this.topicId;
        batch.keyPartitions = this.keyPartitions;
        this.#open.set(place, batch);
        this.unresolved.add(batch);
        const isPlain = !record.priority && !record.deliverAtMs && partition === undefined && !record.key && !idempotencyKey;
        if (isPlain && timeoutMs === options.timeoutMs) this.#plain = batch;
      }
      batch.writer!.add(record);
      batch.deadlineMs = Math.min(batch.deadlineMs, deadlineMs);
      if (idempotencyKey) batch.keys.add(idempotencyKey);
      batch.count++;
      batch.sizeBytes += sizeBytes;
      this.usedBytes += sizeBytes;
      if (batch.count >= options.batchRecords) this.#seal(batch);
      return batch;
    }
  }

  #choose(record: WireRecord): number {
    const key = record.key ?? (record.idempotencyKey?.length ? record.idempotencyKey : undefined);
    return key ? partitionOf(key, this.keyPartitions) : this.#sticky % this.partitions;
  }

  #seal(batch: PendingBatch): void {
    this.#open.delete(batch.place);
    this.#full.push(batch);
    if (batch === this.#plain) this.#plain = undefined;
    if (batch.partition === this.#sticky % this.partitions) this.#sticky++;
  }

  /**
   * Batches that should leave now: every full one, and of the others those whose linger is over, room permitting. An
   * overdue batch leaves, too: its lane fails it.
   */
  take(hasRoom: (partition: number) => boolean, isIdle: (partition: number) => boolean, isFlushing: boolean): PendingBatch[] {
    const nowMs = steadyMs();
    const lingerMs = isFlushing ? 0 : this.options.lingerMs;
    this.nextDueMs = Infinity;
    for (const batch of [...this.#open.values()]) {
      const isOverdue = batch.deadlineMs <= nowMs;
      const countMax = this.options.isPrompt && isIdle(batch.partition) ? PROMPT_COUNT_MAX : 0;
      const isDue = batch.openedMs + lingerMs <= nowMs || batch.count <= countMax;
      if (isOverdue || (isDue && hasRoom(batch.partition))) this.#seal(batch);
      else this.nextDueMs = Math.min(this.nextDueMs, batch.deadlineMs, isDue ? Infinity : batch.openedMs + lingerMs);
    }
    const taken = this.#full;
    this.#full = [];
    return taken;
  }

  /** The batch has its answer. */
  release(batch: PendingBatch): void {
    this.unresolved.delete(batch);
    this.usedBytes -= batch.sizeBytes;
  }
}
