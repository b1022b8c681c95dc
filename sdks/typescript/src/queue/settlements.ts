/**
 * Settlements of one consumer: batched into few requests, and retried until they are done or refused.
 *
 * Settlements of one turn leave in one request per partition and outcome, as runs of offsets. A few requests per
 * partition may be in flight; settlements that come meanwhile share the next one. An unawaited settlement lingers to
 * share a request: every request makes a majority of disks write. It lingers for a small part of the lease at the most.
 *
 * Settling is idempotent, so an attempt without an answer is repeated, at another leader if there is one, until the time
 * limit. A leader refuses the repetition of an attempt that it carried out, and says which messages are settled for good:
 * an acknowledgement of those is done, whoever did it. The others came to another consumer in between.
 */

import type { Result } from "../core/call.js";
import { KIB } from "../codec/record.js";
import { leaseColumns, type LeaseRange } from "../codec/values.js";
import type { Session } from "../core/session.js";
import { steadyMs } from "../core/time.js";
import { FlotillaError } from "../errors.js";
import type { Lease, Place } from "./leases.js";
import { ACK, type Outcome, REJECT, RELEASE } from "./outcome.js";

/** Requests in flight to one partition. */
const IN_FLIGHT_MAX = 2;
/** How long an unawaited settlement lingers, and the count of unanswered messages from which on none does. */
const LINGER_MS = 20;
const LINGER_COUNT_MAX = 256;
/** The part of a lease that a settlement lingers for at the most. */
const LEASE_SHARE = 10;
/** Runs in one request, up to one lease more. */
export const RUNS_MAX = 4096;
const RESULTS_BYTES_MAX = 64 * KIB;
const RESULTS_MAX = 256;

/** Called with a lease, settled offsets, those of them that were refused, and an error without an answer. */
export type Ended = (lease: Lease, offsets: number[], refused: number[], error: FlotillaError | undefined) => void;

interface MessageResult {
  offset: number;
  payload: Uint8Array;
  isKept: boolean;
}

/** Messages of one lease with one outcome. */
class PendingLease {
  readonly waiting = new Map<Ended, number[]>();
  readonly results: MessageResult[] = [];
  resultsBytes = 0;

  constructor(readonly lease: Lease) {}

  hasRoom(bytes: number): boolean {
    return this.resultsBytes + bytes <= RESULTS_BYTES_MAX && this.results.length < RESULTS_MAX;
  }

  get offsets(): number[] {
    return [...this.waiting.values()].flat();
  }
}

interface PendingPlace {
  place: Place;
  byOutcome: Map<string, { outcome: Outcome; leases: PendingLease[]; last: Map<Lease, PendingLease> }>;
  /** Until when they linger; undefined: the next `flush` decides. */
  leaveMs: number | undefined;
}

export class Settlements {
  /** Messages whose settlement is pending or in flight. */
  count = 0;
  /** Messages that were settled otherwise than by a release. */
  handled = 0;
  readonly #waiting = new Map<string, PendingPlace>();
  readonly #inFlight = new Map<string, number>();
  // Partitions to which nothing is sent now, and what is called when nothing is in flight there.
  readonly #held = new Map<string, () => void>();
  readonly #lingerMsMax: number;
  #lingerMs: number;

  /** `answered` is called with the partition of each answer or error, `lingered` when it is time to `flush`. */
  constructor(
    readonly session: Session,
    readonly topic: string,
    readonly group: string,
    readonly timeoutMs: number,
    isOrdered: boolean,
    readonly answered: (partition: number) => void,
    readonly lingered: () => void,
  ) {
    // The next message of a key waits until the last one is settled.
    this.#lingerMsMax = this.#lingerMs = isOrdered ? 0 : LINGER_MS;
  }

  /** Settles messages with the next `flush`, or after lingering. `ended` is called once per request. */
  add(lease: Lease, offsets: number[], outcome: Outcome, ended: Ended, isAwaited: boolean): void {
    this.count += offsets.length;
    if (outcome.kind !== RELEASE) this.handled += offsets.length;
    const { place } = lease;
    let pending = this.#waiting.get(place.key);
    if (!pending) this.#waiting.set(place.key, (pending = { place, byOutcome: new Map(), leaveMs: undefined }));
    // Acks share requests, whatever their results.
    const key = `${outcome.kind}/${outcome.delayMs}/${outcome.reason}`;
    let group = pending.byOutcome.get(key);
    if (!group) pending.byOutcome.set(key, (group = { outcome, leases: [], last: new Map() }));
    const { result } = outcome;
    let own = group.last.get(lease);
    if (!own || (result && !own.hasRoom(result.length))) {
      own = new PendingLease(lease);
      group.leases.push(own);
      group.last.set(lease, own);
    }
    const known = own.waiting.get(ended);
    if (!known) own.waiting.set(ended, offsets);
    else for (const offset of offsets) known.push(offset);
    if (result) {
      for (const offset of offsets) own.results.push({ offset, payload: result, isKept: outcome.isResultKept ?? true });
      own.resultsBytes += result.length * offsets.length;
    }
    if (isAwaited || this.count >= LINGER_COUNT_MAX) pending.leaveMs = 0;
  }

  /** Sends settlements that have lingered long enough, as far as there is room. */
  flush(): void {
    const nowMs = steadyMs();
    for (const pending of [...this.#waiting.values()]) {
      const { key } = pending.place;
      if (pending.leaveMs === undefined) {
        pending.leaveMs = nowMs + this.#lingerMs;
        if (this.#lingerMs) setTimeout(this.lingered, this.#lingerMs + 1);
      }
      if (pending.leaveMs > nowMs || this.#held.has(key)) continue;
      while (this.#waiting.get(key) === pending && (this.#inFlight.get(key) ?? 0) < IN_FLIGHT_MAX) this.#send(pending);
    }
  }

  /** Leases last this long. */
  limitLinger(visibilityMs: number): void {
    this.#lingerMs = Math.min(this.#lingerMsMax, Math.floor(visibilityMs / LEASE_SHARE));
  }

  /** Sends all settlements without lingering, as far as there is room; the rest follows as soon as there is. */
  hurry(): void {
    for (const pending of this.#waiting.values()) pending.leaveMs = 0;
    this.flush();
  }

  /** Sends nothing to the partition until `goOn`; calls `drained` when nothing is in flight there. */
  hold(place: Place, drained: () => void): void {
    this.#held.set(place.key, drained);
    if (!this.#inFlight.has(place.key)) drained();
  }

  goOn(place: Place): void {
    if (this.#held.delete(place.key)) this.flush();
  }

  /** Messages whose settlement is not in flight yet. */
  waitingRuns(place: Place): LeaseRange[] {
    const groups = [...(this.#waiting.get(place.key)?.byOutcome.values() ?? [])];
    return groups.flatMap((group) => group.leases).flatMap((each) => each.lease.runs(each.offsets));
  }

  #send(pending: PendingPlace): void {
    const { place } = pending;
    const [key, group] = pending.byOutcome.entries().next().value!;
    const chosen: PendingLease[] = [];
    const runs: LeaseRange[] = [];
    const results: MessageResult[] = [];
    let resultsBytes = 0;
    while (group.leases.length && runs.length < RUNS_MAX && results.length < RESULTS_MAX && resultsBytes < RESULTS_BYTES_MAX) {
      const each = group.leases.shift()!;
      if (group.last.get(each.lease) === each) group.last.delete(each.lease);
      chosen.push(each);
      runs.push(...each.lease.runs(each.offsets));
      results.push(...each.results);
      resultsBytes += each.resultsBytes;
    }
    if (!group.leases.length) pending.byOutcome.delete(key);
    if (!pending.byOutcome.size) this.#waiting.delete(place.key);
    const { kind, reason, delayMs } = group.outcome;
    const { topicId, partition } = place;
    const fields = {
      topic: this.topic, partition, group: this.group, kind, reason, delayMs, topicId, results, leases: leaseColumns(runs),
    };
    this.#inFlight.set(place.key, (this.#inFlight.get(place.key) ?? 0) + 1);
    const call = this.session.submit("settle", fields, { deadlineMs: steadyMs() + this.timeoutMs }, (result) =>
      this.#returned(place, chosen, result, kind, call.isUnsure),
    );
  }

  #returned(place: Place, settled: PendingLease[], result: Result<"settle">, kind: number, isRepeated: boolean): void {
    const left = this.#inFlight.get(place.key)! - 1;
    if (left) this.#inFlight.set(place.key, left);
    else this.#inFlight.delete(place.key);
    const error = result instanceof FlotillaError ? result : undefined;
    for (const { lease, waiting } of settled) {
      for (const [ended, offsets] of waiting) {
        this.count -= offsets.length;
        let refused: number[] = [];
        if (!(result instanceof FlotillaError)) {
          refused = lease.refused(offsets, result.expired);
          if (isRepeated) {
            // A message that has ended as it was to end is done, whoever ended it; one that was to be given back is.
            const done = new Set(lease.refused(refused, result.settled));
            refused = kind === ACK || kind === REJECT ? refused.filter((offset) => !done.has(offset)) : [];
          }
        }
        lease.lose(refused);
        ended(lease, offsets, refused, error);
      }
    }
    this.answered(place.partition);
    if (!left) this.#held.get(place.key)?.();
    this.flush();
  }
}
