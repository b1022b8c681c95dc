/**
 * The leases of one queue consumer, and when each must be renewed.
 *
 * A message is *unsettled* until it is settled here, *failed* when that had no answer or was turned away, and *lost* when
 * the leader has refused it. Only unsettled messages are renewed, and presented to a new leader. A failed one may be
 * settled again, but its handler is done with it: its lease ends by itself, so that the message comes again. So does the
 * lease of a message whose object the application has dropped: it is renewed once at the most after that.
 */

import type { Delivery, LeaseRange } from "../codec/values.js";
import { LeaseExpiredError } from "../errors.js";

const SETTLED = 0;
const UNSETTLED = 1;
const FAILED = 2;
const LOST = 3;

/** A partition of a topic: leases of a deleted topic are not mixed with those of the next one of its name. */
export interface Place {
  readonly key: string;
  readonly topicId: number;
  readonly partition: number;
}

export function placeOf(topicId: number, partition: number): Place {
  return { key: `${topicId}/${partition}`, topicId, partition };
}

/** One delivery: consecutive offsets under one lease id. */
export class Lease {
  readonly place: Place;
  readonly leaseId: bigint;
  readonly first: number;
  readonly attempt: number;
  readonly states: Uint8Array;
  unsettledCount: number;
  /** When the lease is renewed next, and when it is not renewed any more. */
  renewMs = 0;
  renewedUntilMs = 0;
  /** Its messages, until the first renewal: most are settled by then, and need not be watched. */
  messages: readonly { readonly offset: number }[] = [];
  /** Messages that the application extended: until when a renewal would shorten that. */
  readonly extended = new Map<number, number>();

  constructor(readonly topic: string, readonly group: string, delivery: Delivery) {
    this.place = placeOf(delivery.topicId, delivery.partition);
    this.leaseId = delivery.leaseId;
    this.first = delivery.first;
    this.attempt = delivery.attempt;
    // A delivery without a lease id is settled already.
    this.states = new Uint8Array(delivery.count).fill(delivery.leaseId ? UNSETTLED : SETTLED);
    this.unsettledCount = delivery.leaseId ? delivery.count : 0;
  }

  get topicId(): number {
    return this.place.topicId;
  }

  get partition(): number {
    return this.place.partition;
  }

  isUnsettled(offset: number): boolean {
    return this.states[offset - this.first] === UNSETTLED;
  }

  /** Whether it was acknowledged, given back or lost, or needed none of that. */
  isSettled(offset: number): boolean {
    const state = this.states[offset - this.first];
    return state === SETTLED || state === LOST;
  }

  isLost(offset: number): boolean {
    return this.states[offset - this.first] === LOST;
  }

  unsettled(): number[] {
    const found: number[] = [];
    for (let at = 0; at < this.states.length; at++) if (this.states[at] === UNSETTLED) found.push(this.first + at);
    return found;
  }

  /** The unsettled offsets without those that the application extended beyond now. */
  renewable(nowMs: number): number[] {
    for (const [offset, untilMs] of this.extended) if (untilMs <= nowMs) this.extended.delete(offset);
    const unsettled = this.unsettled();
    return this.extended.size ? unsettled.filter((offset) => !this.extended.has(offset)) : unsettled;
  }

  /** The runs of these offsets, in order. */
  runs(offsets: readonly number[]): LeaseRange[] {
    const runs: LeaseRange[] = [];
    for (const offset of [...offsets].sort((one, other) => one - other)) {
      const last = runs.at(-1);
      if (last && last.end === offset) last.end++;
      else if (!last || last.end < offset) runs.push({ leaseId: this.leaseId, first: offset, end: offset + 1 });
    }
    return runs;
  }

  /** Of these offsets, those that a leader has refused. */
  refused(offsets: readonly number[], ranges: readonly LeaseRange[]): number[] {
    const own = ranges.filter((run) => run.leaseId === this.leaseId);
    return own.length ? offsets.filter((offset) => own.some((run) => run.first <= offset && offset < run.end)) : [];
  }

  lose(offsets: readonly number[]): void {
    for (const offset of offsets) this.states[offset - this.first] = LOST;
  }
}

export class Leases {
  unsettledCount = 0;
  /** A lower bound of the next renewal. */
  nextMs = Infinity;
  readonly #byPartition = new Map<number, Set<Lease>>();
  readonly #watched = new FinalizationRegistry<[Lease, number]>(([lease, offset]) => this.#drop(lease, offset));

  /** `dropped` is called when the application has dropped an unsettled message. */
  constructor(private readonly dropped: () => void) {}

  add(lease: Lease): void {
    this.#keep(lease);
    this.unsettledCount += lease.unsettledCount;
  }

  #keep(lease: Lease): void {
    let leases = this.#byPartition.get(lease.partition);
    if (!leases) this.#byPartition.set(lease.partition, (leases = new Set()));
    leases.add(lease);
    this.hasten(lease.renewMs);
  }

  /** Marks messages as settled; returns those that were unsettled or failed until now. */
  close(lease: Lease, offsets: readonly number[]): number[] {
    const closed: number[] = [];
    let count = 0;
    for (const offset of offsets) {
      const at = offset - lease.first;
      const state = lease.states[at];
      if (state !== UNSETTLED && state !== FAILED) continue;
      if (state === UNSETTLED) count++;
      lease.states[at] = SETTLED;
      closed.push(offset);
    }
    lease.unsettledCount -= count;
    this.unsettledCount -= count;
    if (count && !lease.unsettledCount) this.#byPartition.get(lease.partition)?.delete(lease);
    return closed;
  }

  /** Settling messages failed: they may be settled again, and are held no longer. */
  fail(lease: Lease, offsets: readonly number[]): void {
    for (const offset of offsets) {
      const at = offset - lease.first;
      if (lease.states[at] === SETTLED) lease.states[at] = FAILED;
    }
  }

  /** From now on its unsettled messages are held only while the application keeps them. */
  watch(lease: Lease): void {
    for (const message of lease.messages) {
      if (lease.isUnsettled(message.offset)) this.#watched.register(message, [lease, message.offset]);
    }
    lease.messages = [];
  }

  #drop(lease: Lease, offset: number): void {
    if (!lease.isUnsettled(offset)) return;
    this.fail(lease, this.close(lease, [offset]));
    this.dropped();
  }

  /** Holds failed messages again, because the application has extended them. */
  hold(lease: Lease, offset: number): void {
    const at = offset - lease.first;
    if (lease.states[at] !== FAILED) return;
    lease.states[at] = UNSETTLED;
    lease.unsettledCount++;
    this.unsettledCount++;
    this.#keep(lease);
  }

  /** Notes that a lease must be renewed at this time. */
  hasten(whenMs: number): void {
    this.nextMs = Math.min(this.nextMs, whenMs);
  }

  /** Marks messages as lost that a leader has refused. */
  refuse(topicId: number, partition: number, expired: readonly LeaseRange[]): void {
    if (!expired.length) return;
    for (const lease of this.of(partition)) {
      if (lease.topicId === topicId) lease.lose(this.close(lease, lease.refused(lease.unsettled(), expired)));
    }
  }

  get partitions(): number[] {
    return [...this.#byPartition].filter(([, leases]) => leases.size).map(([partition]) => partition);
  }

  of(partition: number): Lease[] {
    return [...(this.#byPartition.get(partition) ?? [])];
  }

  all(): Lease[] {
    return [...this.#byPartition.values()].flatMap((leases) => [...leases]);
  }

  /** The exact time of the next renewal. */
  findNext(): number {
    this.nextMs = this.all().reduce((least, lease) => Math.min(least, lease.renewMs), Infinity);
    return this.nextMs;
  }
}

/** The error of settling messages whose lease is over. */
export function leaseExpired(lease: Lease, offsets: readonly number[]): LeaseExpiredError {
  const runs = lease.runs(offsets).map(({ first, end }) => (end === first + 1 ? `${first}` : `${first} to ${end - 1}`));
  const what = offsets.length === 1 ? "offset" : "offsets";
  return new LeaseExpiredError(
    `${what} ${runs.join(", ")} of partition ${lease.partition} of ${lease.topic}: the lease is over; group ` +
      `${lease.group} has delivered the message to another consumer, it was settled before, or the topic was deleted`,
  );
}
