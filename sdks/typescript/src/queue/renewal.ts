/** The renewal of one queue consumer's leases, and all requests that extend them. */

import type { Result } from "../core/call.js";
import { leaseColumns, type LeaseRange } from "../codec/values.js";
import type { Session } from "../core/session.js";
import { steadyMs } from "../core/time.js";
import { FlotillaError } from "../errors.js";
import type { Lease, Leases, Place } from "./leases.js";
import { RUNS_MAX } from "./settlements.js";

/** After an extension failed for good, while the lease may still be valid. */
const RETRY_MS = 500;
/** Leases that are due within this fraction of the visibility timeout are renewed together. */
const SLACK_PART = 8;
/** Until a broker has said how long the leases of a group last. */
const VISIBILITY_MS_DEFAULT = 30_000;

export class LeaseRenewal {
  /** The visibility timeout that the leaders reported last. */
  visibilityMs: number;

  /** `answered` gets the partition of each answer; `changed` is called when leases may have been lost. */
  constructor(
    readonly session: Session,
    readonly topic: string,
    readonly group: string,
    readonly member: string,
    readonly leases: Leases,
    visibilityMs: number,
    readonly leaseMsMax: number,
    readonly answered: (partition: number) => void,
    readonly changed: () => void,
  ) {
    this.visibilityMs = visibilityMs || VISIBILITY_MS_DEFAULT;
  }

  /** Takes in the lease of a delivery. */
  add(lease: Lease): void {
    lease.renewMs = steadyMs() + this.visibilityMs / 2;
    lease.renewedUntilMs = steadyMs() + this.leaseMsMax;
    this.leases.add(lease);
  }

  /** Leases to renew now; empty while none is overdue. */
  due(): Lease[] {
    const nowMs = steadyMs();
    if (this.leases.nextMs > nowMs || this.leases.findNext() > nowMs) return [];
    return this.leases.all().filter((lease) => lease.renewMs <= nowMs + this.visibilityMs / SLACK_PART);
  }

  /** Extends the given leases, except those that have reached their limit: they expire by themselves. */
  renew(leases: readonly Lease[]): void {
    const nowMs = steadyMs();
    const runs = new Map<string, { place: Place; ranges: LeaseRange[] }>();
    for (const lease of leases) {
      if (nowMs >= lease.renewedUntilMs) {
        lease.renewMs = Infinity;
        continue;
      }
      lease.renewMs = nowMs + this.visibilityMs / 2;
      if (!lease.unsettledCount) continue;
      this.leases.watch(lease);
      const { place } = lease;
      const known = runs.get(place.key) ?? { place, ranges: [] };
      known.ranges.push(...lease.runs(lease.renewable(nowMs)));
      runs.set(place.key, known);
    }
    this.leases.findNext();
    for (const { place, ranges } of runs.values()) {
      for (let at = 0; at < ranges.length; at += RUNS_MAX) {
        this.submit(place, ranges.slice(at, at + RUNS_MAX), (result) => this.#returned(place, result));
      }
    }
  }

  /** All leases of the partition are being extended. */
  postpone(partition: number): void {
    for (const lease of this.leases.of(partition)) {
      if (lease.renewMs !== Infinity) lease.renewMs = steadyMs() + this.visibilityMs / 2;
    }
  }

  /** Extending leases of the partition failed: they are renewed soon. */
  hasten(partition: number): void {
    for (const lease of this.leases.of(partition)) {
      lease.renewMs = Math.min(lease.renewMs, steadyMs() + RETRY_MS);
      this.leases.hasten(lease.renewMs);
    }
  }

  submit(
    place: Place,
    ranges: readonly LeaseRange[],
    done: (result: Result<"extend">) => void,
    presentedTerm = 0,
    visibilityMs = this.visibilityMs,
  ): void {
    const { topicId, partition } = place;
    const fields = {
      topic: this.topic, partition, group: this.group, member: this.member, leases: leaseColumns(ranges),
      visibilityMs: Math.floor(visibilityMs), topicId, presentedTerm,
    };
    this.session.submit("extend", fields, { deadlineMs: steadyMs() + Math.max(this.visibilityMs, RETRY_MS) }, done);
  }

  #returned(place: Place, result: Result<"extend">): void {
    if (result instanceof FlotillaError) this.hasten(place.partition);
    else {
      this.leases.refuse(place.topicId, place.partition, result.expired);
      this.answered(place.partition);
    }
    this.changed();
  }
}
