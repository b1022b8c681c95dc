/** A message under a lease. The first outcome counts: settling a message again changes nothing, and throws nothing. */

import type { BatchView } from "../codec/batch-view.js";
import type { Limits } from "../core/time.js";
import { Message } from "../message.js";
import type { Bytes, RecordFields } from "../producer/fields.js";
import type { Receipt } from "../producer/pending-batch.js";
import { toBytes } from "../producer/fields.js";
import type { Lease } from "./leases.js";
import { acked, failed, type Outcome, rejected, released } from "./outcome.js";

/** Acknowledges a message and produces the next one in one transaction. */
export type FollowUp = (message: QueueMessage, topic: string, payload: Bytes, fields: RecordFields & Limits) => Promise<Receipt>;

/** The consumer, as its messages see it. */
interface Owner {
  settle(messages: QueueMessage[], outcome: Outcome, options: { wait?: boolean; signal?: AbortSignal }): Promise<void>;
  extend(message: QueueMessage, visibilityMs: number, signal?: AbortSignal): Promise<void>;
  followUp: FollowUp;
  takenOver(lease: Lease, offsets: readonly number[]): void;
}

interface Options {
  /** False: returns at once, and the consumer's next call throws the error. */
  wait?: boolean;
  signal?: AbortSignal;
}

export class QueueMessage extends Message {
  /** @internal */
  readonly lease: Lease;
  /** @internal */
  readonly owner: Owner;

  /** @internal */
  constructor(owner: Owner, lease: Lease, view: BatchView, at: number) {
    super(lease.topic, lease.partition, lease.first + at, view, at);
    this.lease = lease;
    this.owner = owner;
  }

  /** How often it has been delivered, this time included; 1 at first. */
  get attempt(): number {
    return this.lease.attempt;
  }

  /** Whether it was acknowledged, given back or lost, or needed none of that. */
  get isSettled(): boolean {
    return this.lease.isSettled(this.offset);
  }

  /**
   * Acknowledges the message: the group never gets it again. Resolves when that is on disk at a majority; rejects with
   * LeaseExpiredError when the lease has expired and another consumer has the message.
   *
   * `result`, up to 64 KiB, is for the caller that waits for it (`Client.request`, `Client.result`).
   */
  ack({ result, ...options }: Options & { result?: Bytes } = {}): Promise<void> {
    return this.owner.settle([this], acked(result === undefined ? undefined : toBytes(result)), options);
  }

  /** Fails the message: counts as an attempt, and delivers it again after `delayMs`, or the group's backoff. */
  nack({ reason = "", delayMs, ...options }: Options & { reason?: string; delayMs?: number } = {}): Promise<void> {
    return this.owner.settle([this], failed(reason, delayMs), options);
  }

  /** Gives the message back, to be delivered again after `delayMs`. Does not count as an attempt. */
  release({ delayMs = 0, ...options }: Options & { delayMs?: number } = {}): Promise<void> {
    return this.owner.settle([this], released(delayMs), options);
  }

  /** Makes the message a dead letter at once, because it can never succeed. */
  reject({ reason = "", ...options }: Options & { reason?: string } = {}): Promise<void> {
    return this.owner.settle([this], rejected(reason), options);
  }

  /** Sets the lease to end `visibilityMs` from now. Rejects with LeaseExpiredError. */
  extend(visibilityMs: number, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    return this.owner.extend(this, visibilityMs, signal);
  }

  /**
   * Acknowledges the message and produces the next one, in one transaction: both, or neither. Resolves when both are on
   * disk at a majority and visible. Rejects with LeaseExpiredError when another consumer has the message.
   *
   * Python calls this `then`, which would make a JavaScript object a promise.
   */
  followWith(topic: string, payload: Bytes, fields: RecordFields & Limits = {}): Promise<Receipt> {
    return this.owner.followUp(this, topic, payload, fields);
  }
}
