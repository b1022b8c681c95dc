/**
 * The lane of one producer to one partition: sends batches in order, each stored exactly once.
 *
 * Records are numbered without gaps, so a broker stores a batch only after its predecessor and recognises a batch that
 * it has. Several batches may be in flight. When an attempt fails, nothing is sent until all others have returned, and
 * then everything is sent again from the oldest on: no batch overtakes another.
 *
 * A batch that fails for good leaves a gap that nothing of its epoch can follow. The lane then begins a new epoch with
 * sequence 0, which also makes brokers refuse stragglers of the old one. But a batch that may have been stored keeps its
 * old number until that is certain: under a new number it would be stored twice. So it is sent again unchanged; the
 * answer is its offset, or SEQUENCE_GAP, which says that it is not stored.
 *
 * A broker refuses a batch whose producer does not know that its topic has grown, or was deleted and created again. The
 * topic is described anew, and the batch is sent again: keys stay where they are when a topic grows. In another topic of
 * the name it fails, if keys are spread over another number of partitions there.
 */

import { randomBytes } from "node:crypto";

import type { Result } from "../core/call.js";
import { backoffMs, deadlinePassed, isPassing, outcomeUnknown } from "../core/call.js";
import { type Route, routeTo } from "../core/routes.js";
import type { Session } from "../core/session.js";
import { steadyMs } from "../core/time.js";
import {
  DeadlineError, FlotillaError, OutcomeUnknownError, OutOfWindowError, SequenceGapError, TopicGrownError,
  TopicReplacedError,
} from "../errors.js";
import type { PendingBatch } from "./pending-batch.js";
import type { RecordBuffer } from "./record-buffer.js";

/** Batches that may be in flight before they are full: beyond that they had better wait for more records. */
const EARLY_MAX = 2;
/** Small batches may exceed `inFlightMax`, unless that is 1: each time of delivery takes a batch of its own. */
const SMALL_MAX = 256;
const SMALL_BYTES_MAX = 64 * 1024;
const EPOCH_MAX = 2 ** 16 - 1;

export class PartitionLane {
  readonly #route: Route;
  #producerId: bigint;
  #epoch = 0;
  #nextSequence = 0;
  // Unresolved batches in order: first those that were sent at least once, then those that never were.
  readonly #sent = new Set<PendingBatch>();
  readonly #unsent = new Set<PendingBatch>();
  #inFlightCount = 0;
  #inFlightBytes = 0;
  // An attempt failed: nothing is sent before all others have returned and the pause, if any, is over.
  #isBackingOff = false;
  #pause: NodeJS.Timeout | undefined;
  #attempts = 0;
  // A sequence number will never be stored: nothing new may be sent in this epoch.
  #isBroken = false;
  #expiry: NodeJS.Timeout | undefined;
  #expiryMs = Infinity;

  /** `resolved` is called after each batch that ends; `refresh` has the topic described anew. */
  constructor(
    readonly session: Session,
    readonly buffer: RecordBuffer,
    partition: number,
    producerId: bigint,
    readonly resolved: (batch: PendingBatch) => void,
    readonly refresh: () => void,
  ) {
    this.#route = routeTo(buffer.topic, partition);
    this.#producerId = producerId;
  }

  /** Whether a batch that is not full should leave now. */
  get hasRoom(): boolean {
    return this.#sent.size + this.#unsent.size < Math.min(this.buffer.options.inFlightMax, EARLY_MAX);
  }

  get isIdle(): boolean {
    return !this.#sent.size && !this.#unsent.size;
  }

  add(batch: PendingBatch): void {
    this.#unsent.add(batch);
    this.#watch(batch.deadlineMs);
    this.#pump();
  }

  /** Fails every batch now. */
  abandon(error: FlotillaError): void {
    clearTimeout(this.#pause);
    for (const batch of [...this.#sent, ...this.#unsent]) {
      if (batch.isDone) continue;
      batch.isUnsure ||= batch.call?.isPerhapsDone ?? false;
      if (batch.call) this.session.cancel(batch.call);
      this.#fail(batch, error);
    }
    clearTimeout(this.#expiry);
  }

  #pump(): void {
    while (this.#unsent.size || this.#sent.size > this.#inFlightCount) {
      this.#expire();
      const batch = this.#nextToSend();
      if (!batch) return;
      this.#send(batch);
    }
  }

  /** The oldest batch that may be sent now. */
  #nextToSend(): PendingBatch | undefined {
    if (this.#pause || (this.#isBackingOff && this.#inFlightCount)) return undefined;
    this.#isBackingOff = false;
    if (this.#inFlightCount >= this.buffer.options.inFlightMax && !this.#areSmall) return undefined;
    const waiting = this.#toRetry();
    if (this.#isBroken) {
      const unsure = waiting.find((batch) => batch.isUnsure);
      if (unsure || this.#inFlightCount) return unsure;
      this.#beginEpoch();
    }
    return waiting[0] ?? first(this.#unsent);
  }

  get #areSmall(): boolean {
    return (
      this.buffer.options.inFlightMax > 1 && this.#inFlightCount < SMALL_MAX && this.#inFlightBytes < SMALL_BYTES_MAX
    );
  }

  /** Batches that were sent and returned unresolved. Mostly there are none, which costs no walk. */
  #toRetry(): PendingBatch[] {
    return this.#sent.size <= this.#inFlightCount ? [] : [...this.#sent].filter((batch) => !batch.call);
  }

  #beginEpoch(): void {
    this.#isBroken = false;
    this.#nextSequence = 0;
    if (++this.#epoch > EPOCH_MAX) {
      this.#epoch = 0;
      this.#producerId = newProducerId();
    }
    for (const batch of this.#sent) batch.sequence = undefined;
  }

  #send(batch: PendingBatch): void {
    this.#unsent.delete(batch);
    this.#sent.add(batch);
    if (!this.#isMeantHere(batch)) {
      const what = `topic ${batch.topic} was deleted and created again, with other partitions for keys`;
      this.#fail(batch, new TopicReplacedError(`${what}; nothing was stored`));
      return;
    }
    if (batch.sequence === undefined) {
      const numbers = { producerId: this.#producerId, epoch: this.#epoch, sequence: this.#nextSequence };
      try {
        batch.number(numbers, this.buffer.options.compression);
      } catch (error) {
        this.#fail(batch, error as FlotillaError);
        return;
      }
      this.#nextSequence = (this.#nextSequence + batch.leftCount) >>> 0;
    }
    const { topic, partition } = this.#route;
    const fields = { topic, partition, topicId: batch.topicId, partitionCount: this.buffer.partitions };
    const attachment = batch.data!;
    this.#inFlightCount++;
    this.#inFlightBytes += attachment.length;
    batch.call = this.session.submit(
      "produce",
      fields,
      { deadlineMs: batch.deadlineMs, route: this.#route, effect: "repeatable", isSingle: true, attachment },
      (result) => this.#returned(batch, attachment.length, result),
    );
  }

  /** Whether the partition of the batch is right in the topic that has the name now. */
  #isMeantHere(batch: PendingBatch): boolean {
    const { buffer } = this;
    // An unsure batch is not sent to another topic: it would be stored there, and was perhaps in the old one.
    if (batch.topicId === buffer.topicId || batch.isUnsure) return true;
    if (batch.keyPartitions !== buffer.keyPartitions || batch.partition >= buffer.partitions) return false;
    batch.topicId = buffer.topicId;
    return true;
  }

  #returned(batch: PendingBatch, bytes: number, result: Result<"produce">): void {
    batch.isUnsure ||= batch.call!.isUnsure;
    batch.call = undefined;
    this.#inFlightCount--;
    this.#inFlightBytes -= bytes;
    if (!batch.isDone) {
      if (result instanceof FlotillaError) {
        batch.attempts++;
        // A DeadlineError only says that this attempt had no answer.
        if (!(result instanceof DeadlineError)) batch.lastError = result;
        this.#handleError(batch, result);
      } else {
        this.#attempts = 0;
        if (result.knownPositions.length) this.#leaveOut(batch, result.knownPositions, result.knownOffsets);
        else this.#end(batch, result.baseOffset);
      }
    }
    this.#pump();
  }

  /** Takes out the records that are stored already; the rest is sent again, under the same number if possible. */
  #leaveOut(batch: PendingBatch, positions: number[], offsets: number[]): void {
    batch.isUnsure = false;
    const sequence = batch.sequence!;
    try {
      batch.leaveOut(positions, offsets);
    } catch (error) {
      this.#fail(batch, error as FlotillaError);
      return;
    }
    const sent = [...this.#sent];
    // Where later batches are numbered already, the removed records leave a gap.
    if (sent.slice(sent.indexOf(batch) + 1).some((behind) => behind.sequence !== undefined)) this.#isBroken = true;
    else this.#nextSequence = sequence;
    if (!batch.leftCount) this.#end(batch, -1);
  }

  /** Decides after a failed attempt whether the batch is retried or fails. */
  #handleError(batch: PendingBatch, error: FlotillaError): void {
    const isGap = error instanceof SequenceGapError;
    if (isGap) batch.isUnsure = false;
    // The broker has forgotten this producer; only sequence 0 can follow.
    const isForgotten = error instanceof OutOfWindowError && !batch.isUnsure;
    // Nothing of it is stored in the topic that has the name now, where this producer is new.
    const isReplaced = error instanceof TopicReplacedError && !batch.isUnsure;
    if (error instanceof TopicReplacedError || error instanceof TopicGrownError) this.refresh();
    if (this.session.isClosed || !(isGap || isForgotten || isReplaced || isPassing(error, batch.attempts))) {
      this.#fail(batch, error);
      return;
    }
    // A gap before the oldest batch cannot be closed by one in flight.
    if (isForgotten || isReplaced || (isGap && batch === first(this.#sent))) this.#isBroken = true;
    this.#isBackingOff = true;
    this.#watch(batch.deadlineMs);
    if (this.#pause) return;
    const delayMs = backoffMs(++this.#attempts, error);
    if (!delayMs) return;
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      this.#pump();
    }, delayMs);
  }

  // Ends.

  #expire(): void {
    const nowMs = steadyMs();
    if (this.#expiryMs > nowMs) return;
    this.#expiryMs = Infinity;
    for (const batch of [...this.#toRetry(), ...this.#unsent]) {
      if (batch.isDone || batch.call) continue;
      if (batch.deadlineMs <= nowMs) this.#fail(batch, deadlinePassed(batch.lastError));
      else this.#watch(batch.deadlineMs);
    }
  }

  /** Sets the timer that expires waiting batches; the session expires those in flight. */
  #watch(dueMs: number): void {
    if (dueMs >= this.#expiryMs) return;
    this.#expiryMs = dueMs;
    clearTimeout(this.#expiry);
    this.#expiry = setTimeout(() => this.#pump(), Math.max(dueMs - steadyMs(), 0) + 1).unref();
  }

  #fail(batch: PendingBatch, error: FlotillaError): void {
    if (batch.sequence !== undefined) this.#isBroken = true;
    if (batch.isUnsure && !(error instanceof OutcomeUnknownError)) {
      const last = batch.lastError ?? error;
      error = last instanceof OutcomeUnknownError ? last : outcomeUnknown(last);
    }
    this.#end(batch, -1, error);
  }

  #end(batch: PendingBatch, baseOffset: number, error?: FlotillaError): void {
    this.#sent.delete(batch);
    this.#unsent.delete(batch);
    batch.resolve(baseOffset, error);
    this.resolved(batch);
  }
}

/** A random id, unique without asking a broker. Never 0, which means none. */
export function newProducerId(): bigint {
  return (randomBytes(8).readBigUInt64LE() >> 1n) + 1n;
}

function first<T>(items: Set<T>): T | undefined {
  return items.values().next().value;
}
