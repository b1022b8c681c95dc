/**
 * Subscriptions of a queue consumer: one per leader, for all partitions that it leads. Messages are pushed within a credit.
 *
 * The window of the consumer is shared out: what it holds and the credit of all subscriptions make up the window at the
 * most. Only a leader without any credit gets one message of it in any case, or messages there would wait for those of
 * other leaders. Credit is given back when half of a share is free, or when nothing is left. With it the leader may push
 * `fetchBytes` again.
 *
 * A subscription ends when its leader says so or is lost, when all of its partitions have other leaders, when the window
 * has become much smaller than its credit, and when its leader leads more partitions by now: then one for all is begun.
 * What was pushed before the end still comes, and counts until then.
 */

import type { Reply } from "../codec/operations.js";
import type { Call, Result } from "../core/call.js";
import { routeTo } from "../core/routes.js";
import { FlotillaError, NotLeaderError } from "../errors.js";
import { type Asked, type Leaders, NOTHING } from "./leaders.js";
import type { Supply } from "./supply.js";

interface Subscription extends Asked {
  call: Call<"subscribe">;
  /** Messages that may still come. */
  credit: number;
  /** Bytes that came since credit was added last. */
  bytes: number;
  /** The leader has answered. */
  isOpen: boolean;
  isEnding: boolean;
}

export class Subscriptions implements Supply {
  readonly #all = new Set<Subscription>();
  #rotation = 0;

  constructor(readonly leaders: Leaders) {}

  get isIdle(): boolean {
    return !this.#all.size;
  }

  get isSearching(): boolean {
    return [...this.#all].some((each) => !each.isOpen);
  }

  get nextMs(): number {
    return Math.min(this.leaders.nextMs, this.leaders.refreshMs);
  }

  fill(free: number, size: number, ready: number): boolean {
    this.leaders.refresh();
    this.#followLeaders();
    const uncovered = this.leaders.uncovered(this.#all);
    const share = Math.max(Math.floor(size / Math.max(this.#all.size + uncovered.length, 1)), 1);
    let room = free - [...this.#all].reduce((sum, each) => sum + each.credit, 0);
    for (const partitions of uncovered) {
      const leader = this.leaders.of(partitions[0]!);
      const other = leader && [...this.#all].find((each) => each.leader === leader);
      if (other) this.#end(other);
      else if (free > 0) room -= this.#begin(partitions, Math.max(Math.min(room, share), 1));
    }
    for (const each of this.#rotated()) {
      if (!each.isOpen || each.isEnding) continue;
      if (each.credit > 2 * share) this.#end(each);
      else room -= this.#give(each, share, room, free > 0 && !ready);
    }
    return true;
  }

  withdraw(): void {
    for (const each of this.#all) this.#end(each);
  }

  /** Leaves leaders that have been replaced. */
  #followLeaders(): void {
    for (const each of this.#all) {
      const { leader } = each;
      if (leader === undefined || each.isEnding) continue;
      each.partitions = each.partitions.filter((number) => (this.leaders.of(number) ?? leader) === leader);
      if (!each.partitions.length) this.#end(each);
    }
  }

  /** Another one first each time, so that none is neglected. */
  #rotated(): Subscription[] {
    const all = [...this.#all];
    const first = all.length ? this.#rotation++ % all.length : 0;
    return [...all.slice(first), ...all.slice(0, first)];
  }

  /** Subscribes, and returns the credit. */
  #begin(partitions: number[], credit: number): number {
    const { leaders } = this;
    const leader = leaders.of(partitions[0]!);
    const options = { deadlineMs: Infinity, route: routeTo(leaders.topic, partitions[0]!), isSingle: true };
    const call = leaders.session.submit("subscribe", { ...leaders.request(partitions), credit }, options, (result) =>
      this.#returned(begun, result),
    );
    const begun = { call, leader, partitions, credit, bytes: 0, isOpen: false, isEnding: false };
    this.#all.add(begun);
    return credit;
  }

  /** Adds credit where that is worth a request, and returns it. `isNeeded`: the consumer has nothing left to do. */
  #give(to: Subscription, share: number, room: number, isNeeded: boolean): number {
    const most = Math.max(Math.min(room, share - to.credit), 0);
    const messages = isNeeded && !to.credit ? Math.max(most, 1) : most;
    const isStopped = to.bytes >= this.leaders.options.fetchBytes;
    if (!(messages * 2 >= share || (isNeeded && (!to.credit || isStopped)))) return 0;
    to.credit += messages;
    to.bytes = 0;
    this.leaders.session.addCredit(to.call, messages);
    return messages;
  }

  #end(given: Subscription): void {
    if (given.isEnding) return;
    given.isEnding = true;
    this.leaders.session.unsubscribe(given.call, () => {
      this.#all.delete(given);
      this.leaders.owner.arrived(NOTHING);
    });
  }

  #returned(from: Subscription, result: Result<"subscribe">): void {
    if (result instanceof FlotillaError) {
      this.#all.delete(from);
      this.leaders.failed(from, result);
    } else this.#pushed(from, result);
  }

  #pushed(from: Subscription, pushed: Reply<"subscribe">): void {
    for (const { count, batch } of pushed.deliveries) {
      from.credit -= count;
      from.bytes += batch.length;
    }
    if (!from.isOpen) {
      from.isOpen = true;
      from.leader ??= from.call.link?.address;
      this.leaders.answered(from.partitions, undefined);
      for (const number of from.partitions) this.leaders.recovered(number);
    }
    if (pushed.lag !== undefined) this.leaders.learnLag(from.partitions, pushed.lag);
    this.leaders.owner.arrived(pushed);
    if (pushed.leftPartitions.length) this.#left(from, pushed.leftPartitions);
  }

  /** The leader has lost some of the partitions. */
  #left(from: Subscription, partitions: number[]): void {
    from.partitions = from.partitions.filter((number) => !partitions.includes(number));
    this.leaders.failed({ leader: from.leader, partitions }, new NotLeaderError("no leader is known"));
  }
}
