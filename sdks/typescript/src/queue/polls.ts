/**
 * Polls of a queue consumer: one per leader, for all partitions that it leads.
 *
 * A round polls the leaders one after another without waiting, each round from another one, so that none is neglected.
 * When none has messages, a long poll is parked at each.
 */

import type { Reply } from "../codec/operations.js";
import type { Call, Result } from "../core/call.js";
import { routeTo } from "../core/routes.js";
import { steadyMs } from "../core/time.js";
import { FlotillaError } from "../errors.js";
import type { Asked, Leaders } from "./leaders.js";
import type { Supply } from "./supply.js";

/** How long a broker waits for news before it answers that there are none. */
export const LONG_POLL_MS = 5_000;
/** What a broker hands out in one poll at the most. */
export const POLL_MESSAGES_MAX = 1_024;
/** The pause of a leader that answers a long poll with nothing at once, doubling. */
const PAUSE_MS = 20;
const PAUSE_MS_MAX = 500;
/** How long a leader that had nothing is polled last. */
const DRY_MS = 100;

/** What a poll asks for, and where. */
interface PollInFlight extends Asked {
  messages: number;
  waitMs: number;
  sentMs: number;
}

export class Polls implements Supply {
  readonly #inFlight = new Map<Call<"poll">, PollInFlight>();
  readonly #dryUntilMs = new Map<number, number>();
  // Partitions that are still to be polled in this round.
  #round = new Set<number>();
  #rotation = 0;

  /** `asksAhead`: an iteration polls before it has no messages left. */
  constructor(readonly leaders: Leaders, readonly asksAhead: boolean) {}

  /** How many messages the polls in flight may bring. */
  get #messagesInFlight(): number {
    return [...this.#inFlight.values()].reduce((sum, asked) => sum + asked.messages, 0);
  }

  get isIdle(): boolean {
    return !this.#inFlight.size;
  }

  /** A round is not over: leaders are still polled without waiting. */
  get isSearching(): boolean {
    return this.#round.size > 0 || [...this.#inFlight.values()].some((asked) => !asked.waitMs);
  }

  get nextMs(): number {
    return this.leaders.nextMs;
  }

  /** Begins a round with the next leader. */
  beginRound(): void {
    this.#rotation++;
    this.#round = new Set(this.leaders.partitions);
  }

  /** From now on the owner polls all the time, without rounds. */
  endRound(): void {
    this.#round.clear();
  }

  fill(free: number, size: number, ready: number): boolean {
    if (free <= 0) return false;
    const room = free - this.#messagesInFlight;
    // Not for each free slot while messages are ready.
    if (ready && !(this.asksAhead && room * 2 >= size)) return false;
    // Polls that are parked at leaders without messages must not keep the other leaders from being polled.
    this.ask(Math.max(room, 1), LONG_POLL_MS, true);
    return true;
  }

  /** Polls leaders without a poll in flight: for `wanted` messages in all if `isShared`, else for as many of each. */
  ask(wanted: number, waitMs: number, isShared: boolean): void {
    this.leaders.refresh();
    const messages = Math.min(wanted, POLL_MESSAGES_MAX);
    const groups = this.#rotated(this.leaders.uncovered(this.#inFlight.values()));
    if (isShared) {
      this.#rotation++;
      // At least one of each, so that no leader is neglected.
      groups.forEach((group, at) => this.#send(group, Math.max(Math.floor((messages + at) / groups.length), 1), waitMs));
      return;
    }
    if (this.#round.size && (groups.length > 1 || !waitMs)) {
      for (const group of [...groups.filter((each) => !this.#isDry(each)), ...groups.filter((each) => this.#isDry(each))]) {
        const unasked = group.filter((number) => this.#round.has(number));
        if (!unasked.length) continue;
        for (const number of unasked) this.#round.delete(number);
        this.#send(unasked, messages, 0);
        return;
      }
    }
    this.#round.clear();
    if (waitMs && !this.isSearching) for (const group of groups) this.#send(group, messages, waitMs);
  }

  /** Ends all polls. Messages that are leased by then still arrive. */
  withdraw(): void {
    for (const call of [...this.#inFlight.keys()]) if (!this.leaders.session.withdraw(call)) this.#inFlight.delete(call);
  }

  #rotated(groups: number[][]): number[][] {
    const first = groups.length ? this.#rotation % groups.length : 0;
    return [...groups.slice(first), ...groups.slice(0, first)];
  }

  #isDry(partitions: readonly number[]): boolean {
    return partitions.every((number) => (this.#dryUntilMs.get(number) ?? 0) > steadyMs());
  }

  #send(partitions: number[], messages: number, waitMs: number): void {
    const { leaders } = this;
    const asked = { leader: leaders.of(partitions[0]!), partitions, messages, waitMs, sentMs: steadyMs() };
    const fields = { ...leaders.request(partitions), maxMessages: messages, waitMs: Math.floor(waitMs) };
    const deadlineMs = steadyMs() + waitMs + leaders.options.timeoutMs;
    const options = { deadlineMs, route: routeTo(leaders.topic, partitions[0]!), isSingle: true };
    const call = leaders.session.submit("poll", fields, options, (result) => this.#returned(call, asked, result));
    this.#inFlight.set(call, asked);
  }

  #returned(call: Call<"poll">, asked: PollInFlight, result: Result<"poll">): void {
    this.#inFlight.delete(call);
    if (result instanceof FlotillaError) this.leaders.failed(asked, result);
    else {
      this.#noteAnswer(asked, result);
      this.leaders.owner.arrived(result);
    }
  }

  #noteAnswer(asked: PollInFlight, polled: Reply<"poll">): void {
    const nowMs = steadyMs();
    this.leaders.answered(asked.partitions, polled.lag);
    const isEmpty = !polled.deliveries.length;
    const isHasty = isEmpty && nowMs - asked.sentMs < asked.waitMs / 2;
    for (const number of asked.partitions) {
      if (isEmpty) this.#dryUntilMs.set(number, nowMs + DRY_MS);
      else this.#dryUntilMs.delete(number);
      if (polled.retryAfterMs || isHasty) this.leaders.pause(number, polled.retryAfterMs, PAUSE_MS, PAUSE_MS_MAX);
      else this.leaders.recovered(number);
    }
  }
}
