/**
 * The presentation of one queue consumer's leases to new leaders.
 *
 * Leases are in the memory of a leader, so a new leader knows none. It knows the members that can hold any, and delivers
 * no earlier message until each of them has presented its leases, or for a short grace period. So when a connection to a
 * leader is lost, or another leader answers in its place, all leases of its partitions are extended at the new leader.
 *
 * The last of these requests is a promise: the consumer holds no other lease of an earlier term, and takes none any more.
 *
 *     term     learned from the new leader by the first request. From then on deliveries of earlier terms are dropped:
 *              they come from a leader that is deposed, and the new one delivers the messages.
 *     settled  what is being settled is still held, until its answer: so the promise waits for settlements in flight,
 *              and further ones wait for the promise. It includes them.
 */

import type { Result } from "../core/call.js";
import type { Delivery, LeaseRange } from "../codec/values.js";
import type { Address } from "../core/routes.js";
import type { Session } from "../core/session.js";
import { FlotillaError } from "../errors.js";
import { type Leases, type Place, placeOf } from "./leases.js";
import type { LeaseRenewal } from "./renewal.js";
import { RUNS_MAX, type Settlements } from "./settlements.js";

/** Settlements wait for a promise no longer than this. Without it the new leader waits for its grace period. */
const PROMISE_MS = 1_000;
/** The low bits of a lease id are a number, the others the term of the leader that gave it. */
const LEASE_NUMBER_BITS = 40n;

/** To the present leader of one partition. */
class Presentation {
  calls = 0;
  /** The term of the last promise; 0: there was none. */
  promised = 0;
  /** Leaders may have changed since it began. */
  isAgain = false;
  /** New settlements wait for it. */
  isHolding = false;
  /** There will be no promise. */
  hasFailed = false;
}

export class Presentations {
  // The leader that answered last, by partition; undefined: it is not known.
  readonly #leaders = new Map<number, Address | undefined>();
  // Partitions whose leaders have leased messages to this consumer, or may have.
  readonly #polled = new Set<number>();
  // The highest term that was heard of: leases of earlier ones are taken no more.
  readonly #terms = new Map<string, number>();
  readonly #open = new Map<string, Presentation>();

  /** `topicId`: of the topic that is polled, 0: not known. `changed` is called when leases may have been lost. */
  constructor(
    readonly session: Session,
    readonly topic: string,
    readonly leases: Leases,
    readonly renewal: LeaseRenewal,
    readonly settlements: Settlements,
    readonly topicId: () => number,
    readonly changed: () => void,
  ) {}

  /** A poll for these partitions is about to be sent. */
  polled(partitions: readonly number[]): void {
    for (const partition of partitions) {
      if (this.#polled.has(partition)) continue;
      this.#polled.add(partition);
      if (!this.#leaders.has(partition)) this.#leaders.set(partition, this.session.routes.leader(this.topic, partition));
    }
  }

  /** Notes which leader answered for this partition, and presents the leases to a new one. */
  answered(partition: number): void {
    const leader = this.session.routes.leader(this.topic, partition);
    if (leader === undefined) return;
    const before = this.#leaders.get(partition);
    this.#leaders.set(partition, leader);
    if (before !== undefined && before !== leader) this.present(partition);
  }

  /** A connection has ended: presents the leases that its broker led. */
  linkLost(address: Address): void {
    for (const partition of new Set([...this.leases.partitions, ...this.#polled])) {
      const leader = this.#leaders.get(partition);
      if (leader === address || leader === undefined) this.present(partition);
    }
  }

  /** Whether a delivery is of a leader that is not known to be deposed. */
  takes(delivery: Delivery): boolean {
    if (!delivery.leaseId) return true;
    const { key } = placeOf(delivery.topicId, delivery.partition);
    const term = Number(delivery.leaseId >> LEASE_NUMBER_BITS);
    if (term < (this.#terms.get(key) ?? 0)) return false;
    this.#terms.set(key, term);
    return true;
  }

  /** Extends all leases of a partition at its present leader, and promises that there are no others. */
  present(partition: number): void {
    const topicIds = new Set(this.leases.of(partition).map((lease) => lease.topicId));
    const topicId = this.topicId();
    if (topicId && this.#polled.has(partition)) topicIds.add(topicId);
    for (const each of topicIds) {
      const place = placeOf(each, partition);
      const open = this.#open.get(place.key);
      if (open) {
        open.isAgain = true;
        continue;
      }
      this.#open.set(place.key, new Presentation());
      this.renewal.postpone(partition);
      this.#extendAll(place);
    }
  }

  #extendAll(place: Place): void {
    const runs = this.#held(place);
    const pieces: LeaseRange[][] = [];
    for (let at = 0; at < runs.length; at += RUNS_MAX) pieces.push(runs.slice(at, at + RUNS_MAX));
    if (!pieces.length) pieces.push([]);
    this.#open.get(place.key)!.calls = pieces.length;
    for (const piece of pieces) this.renewal.submit(place, piece, (result) => this.#returned(place, result));
  }

  #held(place: Place): LeaseRange[] {
    const own = this.leases.of(place.partition).filter((lease) => lease.topicId === place.topicId);
    return [...this.settlements.waitingRuns(place), ...own.flatMap((lease) => lease.runs(lease.unsettled()))];
  }

  /** No settlement is in flight. */
  #promise(place: Place): void {
    const presentation = this.#open.get(place.key);
    if (!presentation || presentation.calls) return;
    presentation.calls = 1;
    presentation.promised = this.#terms.get(place.key)!;
    this.renewal.submit(place, this.#held(place), (result) => this.#returned(place, result), presentation.promised);
  }

  #returned(place: Place, result: Result<"extend">): void {
    const presentation = this.#open.get(place.key);
    if (!presentation) return;
    presentation.calls--;
    if (result instanceof FlotillaError) {
      presentation.hasFailed = true;
      this.renewal.hasten(place.partition);
    } else {
      this.leases.refuse(place.topicId, place.partition, result.expired);
      this.#terms.set(place.key, Math.max(result.term, this.#terms.get(place.key) ?? 0));
    }
    if (!presentation.calls) this.#goOn(place, presentation);
    this.changed();
  }

  /** All requests were answered. */
  #goOn(place: Place, presentation: Presentation): void {
    if (presentation.isAgain) {
      // Perhaps by a leader that is deposed by now.
      presentation.isAgain = false;
      this.#extendAll(place);
      return;
    }
    const term = this.#terms.get(place.key) ?? 0;
    const isOver = term === 0 || term === presentation.promised || presentation.hasFailed;
    if (isOver || this.#held(place).length > RUNS_MAX) {
      this.#end(place);
      return;
    }
    if (!presentation.isHolding) {
      presentation.isHolding = true;
      setTimeout(() => this.#giveUp(place, presentation), PROMISE_MS).unref();
    }
    this.settlements.hold(place, () => this.#promise(place));
  }

  /** There was no promise in time. */
  #giveUp(place: Place, presentation: Presentation): void {
    if (this.#open.get(place.key) !== presentation) return;
    presentation.hasFailed = true;
    this.settlements.goOn(place);
    if (!presentation.calls) this.#end(place);
  }

  #end(place: Place): void {
    this.#open.delete(place.key);
    // The leader that answered has seen all leases.
    this.#leaders.delete(place.partition);
    this.answered(place.partition);
    this.settlements.goOn(place);
  }
}
