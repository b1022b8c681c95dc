/**
 * A batch from its first record to its answer, and the delivery of each record in it.
 *
 * The records of a batch are stored or fail together, so they share one state: a delivery is only a position in a
 * batch. A batch is encoded when it is first sent; when its numbers change later, only its header is written anew.
 */

import { BatchView } from "../codec/batch-view.js";
import { BatchWriter, type Numbers, renumber } from "../codec/batch-writer.js";
import type { Compression } from "../codec/compression.js";
import type { Call } from "../core/call.js";
import { type FlotillaError, UnknownError } from "../errors.js";

/** Where a record is stored: on disk at a majority of replicas. */
export interface Receipt {
  topic: string;
  /** Of the topic: one that is deleted and created again under its name has another. */
  topicId: number;
  partition: number;
  offset: number;
  /** A record with this idempotency key was stored there before; this one was not needed. */
  duplicate: boolean;
}

export class PendingBatch {
  /** The topic in which its partition was chosen, and over how many partitions keys are spread there. */
  topic = "";
  topicId = 0;
  keyPartitions = 0;
  sizeBytes = 0;
  writer: BatchWriter | undefined = new BatchWriter();
  /** All its records. */
  count = 0;
  /** The idempotency keys of its records, none of which may occur twice. */
  readonly keys = new Set<string>();
  /** Offsets of records whose keys were stored before, by position; they are not in `data` any more. */
  readonly known = new Map<number, number>();
  data: Buffer | undefined;
  /** undefined: it has no sequence number yet, or needs another. */
  sequence: number | undefined;
  /** The attempt in flight. */
  call: Call<"produce"> | undefined;
  isUnsure = false;
  attempts = 0;
  lastError: FlotillaError | undefined;
  baseOffset = -1;
  error: FlotillaError | undefined;
  isDone = false;
  /** The application has seen the error. */
  isObserved = false;
  #callbacks: (() => void)[] = [];

  constructor(readonly partition: number, readonly place: string, readonly openedMs: number, public deadlineMs: number) {}

  /** The bytes of the batch under these numbers. Throws InvalidArgumentError. */
  number(numbers: Numbers, compression: Compression): void {
    if (this.data) renumber(this.data, numbers);
    else {
      this.data = this.writer!.seal(compression, numbers);
      this.writer = undefined;
    }
    this.sequence = numbers.sequence;
  }

  /** The count of records that are still to be stored. */
  get leftCount(): number {
    return this.count - this.known.size;
  }

  /** Takes out records that are stored already, by position in the sent batch. Throws UnknownError. */
  leaveOut(positions: readonly number[], offsets: readonly number[]): void {
    const left: number[] = [];
    for (let at = 0; at < this.count; at++) if (!this.known.has(at)) left.push(at);
    if (!positions.length || positions.some((at) => at >= left.length)) {
      throw new UnknownError(`the broker knows records ${positions.join()} of a batch of ${left.length}`);
    }
    const view = new BatchView(this.data!);
    this.writer = new BatchWriter();
    for (let at = 0; at < view.count; at++) {
      if (positions.includes(at)) continue;
      this.writer.add({
        payload: view.payload(at), key: view.key(at), headers: view.headers(at), timestampMs: view.timestampMs(at),
        priority: view.priority, contentType: view.contentType(at), deliverAtMs: view.deliverAtMs,
        ttlMs: view.ttlMs(at), idempotencyKey: view.idempotencyKey(at), maxDeliveries: view.maxDeliveries(at),
      });
    }
    this.data = undefined;
    this.sequence = undefined;
    positions.forEach((at, index) => this.known.set(left[at]!, offsets[index]!));
  }

  /** Ends it: stored at `baseOffset`, or failed. */
  resolve(baseOffset: number, error?: FlotillaError): void {
    this.baseOffset = baseOffset;
    this.error = error;
    this.data = undefined;
    this.writer = undefined;
    this.isDone = true;
    for (const callback of this.#callbacks) callback();
    this.#callbacks = [];
  }

  done(): Promise<void> {
    return this.isDone ? Promise.resolve() : new Promise((resolve) => this.#callbacks.push(resolve));
  }

  /** Throws why the record failed. */
  receipt(position: number): Receipt {
    const { topic, topicId, partition } = this;
    const known = this.known.get(position);
    if (known !== undefined) return { topic, topicId, partition, offset: known, duplicate: true };
    if (this.error) {
      this.isObserved = true;
      throw this.error;
    }
    let before = 0;
    for (const at of this.known.keys()) if (at < position) before++;
    return { topic, topicId, partition, offset: this.baseOffset + position - before, duplicate: false };
  }
}

/** What becomes of one record that was sent. */
export class Delivery {
  readonly #batch: PendingBatch;
  readonly #position: number;

  constructor(batch: PendingBatch, position: number) {
    this.#batch = batch;
    this.#position = position;
  }

  /** Whether the record is stored, or has failed. */
  get isDone(): boolean {
    return this.#batch.isDone;
  }

  /** The receipt, when the record is stored. Rejects with why it failed. */
  async result(): Promise<Receipt> {
    await this.#batch.done();
    return this.#batch.receipt(this.#position);
  }
}
