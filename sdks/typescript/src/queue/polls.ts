/**
 * Polls of a queue consumer: one per leader, for all partitions that it leads.
 *
 * Known leaders may be out of date. The leader of a partition whose poll failed is forgotten, and the partition is polled
 * alone, which makes the session find the new leader. Metadata are refreshed now and then, which also shows partitions
 * that the topic has got since. A partition is covered while a poll for it is in flight at its known leader.
 *
 * A round polls the leaders one after another without waiting, each round from another one, so that none is neglected.
 * When none has messages, a long poll is parked at each.
 */

import type { Reply } from "../codec/operations.js";
import { backoffMs, type Call, doubledMs, isPassing, type Result } from "../core/call.js";
import { type Address, routeTo } from "../core/routes.js";
import type { Session } from "../core/session.js";
import { steadyMs } from "../core/time.js";
import { FlotillaError, NotLeaderError, TopicReplacedError, UnavailableError } from "../errors.js";
import type { QueueOptions } from "./options.js";

/** How long a consumer that is closed waits for the leaders that it leaves. */
export const LEAVE_MS_MAX = 1_000;
/** How often metadata are refreshed while polling. */
const REFRESH_MS = 10_000;
/** The pause of a leader that answers a long poll with nothing at once, doubling. */
const PAUSE_MS = 20;
const PAUSE_MS_MAX = 500;
/** How long a leader that had nothing is polled last. */
const DRY_MS = 100;

/** What a poll asks for, and where. */
interface PollInFlight {
  leader: Address | undefined;
  partitions: number[];
  messages: number;
  waitMs: number;
  sentMs: number;
}

/** Consecutive failed or hasty answers: since when, how many, and until when to pause. */
interface Failures {
  sinceMs: number;
  count: number;
  pauseMs: number;
}

export interface PollOwner {
  /** A poll for these partitions is about to be sent. */
  polling(partitions: readonly number[]): void;
  arrived(polled: Reply<"poll">): void;
  /** An error that retrying does not cure. */
  pollFailed(error: FlotillaError): void;
  /** For each partition of an answer. */
  answered(partition: number): void;
  /** For each partition that has another leader now. */
  moved(partition: number): void;
}

const NOTHING: Reply<"poll"> = { deliveries: [], visibilityMs: 0, retryAfterMs: 0, lag: -1 };

export class Polls {
  readonly #inFlight = new Map<Call<"poll">, PollInFlight>();
  readonly #failures = new Map<number, Failures>();
  readonly #dryUntilMs = new Map<number, number>();
  // How many messages are unsettled, by the partitions of an answer.
  #lags = new Map<string, { partitions: number[]; lag: number }>();
  #partitions: number[] = [];
  // Partitions that are still to be polled in this round.
  #round = new Set<number>();
  #rotation = 0;
  // The leaders that were polled: to them the consumer is a member.
  readonly #met = new Set<Address>();
  #refreshedMs = steadyMs();
  #isRefreshing = false;

  constructor(
    readonly session: Session,
    readonly topic: string,
    readonly group: string,
    readonly member: string,
    readonly options: QueueOptions,
    readonly owner: PollOwner,
  ) {}

  /** How many messages the polls in flight may bring. */
  get messagesInFlight(): number {
    return [...this.#inFlight.values()].reduce((sum, asked) => sum + asked.messages, 0);
  }

  get isIdle(): boolean {
    return !this.#inFlight.size;
  }

  /** A round is not over: leaders are still polled without waiting. */
  get isSearching(): boolean {
    return this.#round.size > 0 || [...this.#inFlight.values()].some((asked) => !asked.waitMs);
  }

  /** When the pause of a partition ends. */
  get nextMs(): number {
    const nowMs = steadyMs();
    const pauses = [...this.#failures.values()].map((each) => each.pauseMs).filter((each) => each > nowMs);
    return Math.min(Infinity, ...pauses);
  }

  /** Of the topic that is polled; 0: not known, because it was deleted and perhaps created again. */
  get topicId(): number {
    return this.session.routes.topics.get(this.topic)?.topicId ?? 0;
  }

  /** Unsettled messages of the group in the polled partitions; undefined: no answer has told yet. */
  get lag(): number | undefined {
    return this.#lags.size ? [...this.#lags.values()].reduce((sum, each) => sum + each.lag, 0) : undefined;
  }

  /** Takes over the partitions of the topic, which may have grown. */
  adapt(): void {
    const topic = this.session.routes.topics.get(this.topic);
    if (topic) this.#partitions = this.options.partitions ?? topic.partitions.map((part) => part.number);
  }

  /** Begins a round with the next leader. */
  beginRound(): void {
    this.#rotation++;
    this.#round = new Set(this.#partitions);
  }

  /** Polls leaders without a poll in flight: for `messages` in all if `isShared`, else for as many of each. */
  ask(messages: number, waitMs: number, isShared: boolean): void {
    this.#refresh();
    const groups = this.#uncovered();
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
    for (const call of [...this.#inFlight.keys()]) if (!this.session.withdraw(call)) this.#inFlight.delete(call);
  }

  /** Tells the leaders that the consumer is closed. One that cannot be reached now notices the lost connection. */
  async leave(timeoutMs: number): Promise<void> {
    const told = new Set<Address>();
    const leaving: Promise<unknown>[] = [];
    const { topic, group, member, session } = this;
    for (const partition of this.#partitions) {
      const leader = session.routes.leader(topic, partition);
      if (leader === undefined || told.has(leader) || !this.#met.has(leader) || !session.hasOpenLink(leader)) continue;
      told.add(leader);
      const options = { timeoutMs: Math.min(timeoutMs, LEAVE_MS_MAX), isSingle: true };
      leaving.push(session.call("leaveQueue", { topic, group, member, partition }, options).catch(() => undefined));
    }
    await Promise.all(leaving);
  }

  /** Partitions without a poll in flight, by leader. */
  #uncovered(): number[][] {
    const leaderOf = (partition: number): Address | undefined => this.session.routes.leader(this.topic, partition);
    const covered = new Set<number>();
    for (const { leader, partitions } of this.#inFlight.values()) {
      for (const number of partitions) {
        const known = leaderOf(number);
        if (leader === undefined || known === undefined || known === leader) covered.add(number);
      }
    }
    const groups = new Map<Address | number, number[]>();
    for (const number of this.#partitions) {
      if (covered.has(number) || (this.#failures.get(number)?.pauseMs ?? 0) > steadyMs()) continue;
      const key = leaderOf(number) ?? number;
      const group = groups.get(key);
      if (group) group.push(number);
      else groups.set(key, [number]);
    }
    const found = [...groups.values()];
    const first = found.length ? this.#rotation % found.length : 0;
    return [...found.slice(first), ...found.slice(0, first)];
  }

  #isDry(partitions: readonly number[]): boolean {
    return partitions.every((number) => (this.#dryUntilMs.get(number) ?? 0) > steadyMs());
  }

  #send(partitions: number[], messages: number, waitMs: number): void {
    const { options, session, topic, group, member } = this;
    this.owner.polling(partitions);
    const route = routeTo(topic, partitions[0]!);
    const fields = {
      topic, group, member, partitions, maxMessages: messages, maxBytes: options.fetchBytes, presents: true,
      visibilityMs: options.visibilityMs, waitMs: Math.floor(waitMs), isAutoAck: options.isAutoAck,
      isOrderedByKey: options.isOrderedByKey, start: options.start, topicId: this.topicId, ...options.filter,
    };
    const asked = { leader: session.routes.find(route), partitions, messages, waitMs, sentMs: steadyMs() };
    const deadlineMs = steadyMs() + waitMs + options.timeoutMs;
    const call = session.submit("poll", fields, { deadlineMs, route, isSingle: true }, (result) =>
      this.#returned(call, asked, result),
    );
    this.#inFlight.set(call, asked);
    if (asked.leader !== undefined) this.#met.add(asked.leader);
  }

  #returned(call: Call<"poll">, asked: PollInFlight, result: Result<"poll">): void {
    this.#inFlight.delete(call);
    if (result instanceof FlotillaError) this.#noteFailure(asked, result);
    else {
      this.#noteAnswer(asked, result);
      this.owner.arrived(result);
    }
  }

  #noteAnswer(asked: PollInFlight, polled: Reply<"poll">): void {
    const nowMs = steadyMs();
    if (polled.lag >= 0) this.#learnLag(asked.partitions, polled.lag);
    const isEmpty = !polled.deliveries.length;
    const isHasty = isEmpty && nowMs - asked.sentMs < asked.waitMs / 2;
    for (const number of asked.partitions) {
      this.owner.answered(number);
      const leader = this.session.routes.leader(this.topic, number);
      if (leader !== undefined) this.#met.add(leader);
      if (isEmpty) this.#dryUntilMs.set(number, nowMs + DRY_MS);
      else this.#dryUntilMs.delete(number);
      if (polled.retryAfterMs || isHasty) {
        const failures = this.#failuresOf(number);
        failures.count++;
        failures.pauseMs = nowMs + Math.max(polled.retryAfterMs, doubledMs(PAUSE_MS, failures.count, PAUSE_MS_MAX));
      } else this.#failures.delete(number);
    }
  }

  /** An answer takes the place of all earlier ones that counted one of its partitions. */
  #learnLag(partitions: number[], lag: number): void {
    for (const [key, known] of this.#lags) {
      if (known.partitions.some((number) => partitions.includes(number))) this.#lags.delete(key);
    }
    this.#lags.set(partitions.join(), { partitions, lag });
  }

  #failuresOf(number: number): Failures {
    let failures = this.#failures.get(number);
    if (!failures) this.#failures.set(number, (failures = { sinceMs: steadyMs(), count: 0, pauseMs: 0 }));
    return failures;
  }

  #noteFailure(asked: PollInFlight, error: FlotillaError): void {
    if (error instanceof TopicReplacedError) {
      this.#beginAnew();
      return;
    }
    const nowMs = steadyMs();
    let isLasting = false;
    for (const number of asked.partitions) {
      this.#doubt(number, asked, error);
      const failures = this.#failuresOf(number);
      failures.count++;
      failures.pauseMs = nowMs + backoffMs(failures.count, error);
      if (nowMs - failures.sinceMs >= this.options.timeoutMs || !isPassing(error, failures.count)) {
        isLasting = true;
        failures.sinceMs = nowMs;
        failures.count = 0;
      }
      if (error instanceof NotLeaderError) this.owner.moved(number);
    }
    if (isLasting) this.owner.pollFailed(error);
    else this.owner.arrived(NOTHING);
  }

  /** The topic was deleted and created again: goes on with the new one, which may have other partitions. */
  #beginAnew(): void {
    this.#failures.clear();
    this.#lags = new Map();
    this.session.routes.forget(this.topic);
    this.#refreshedMs = steadyMs() - REFRESH_MS;
    this.owner.arrived(NOTHING);
  }

  /** Forgets the leader, so that the partition is polled alone next time and does not hold up the others. */
  #doubt(number: number, asked: PollInFlight, error: FlotillaError): void {
    const route = routeTo(this.topic, number);
    const leader = this.session.routes.find(route);
    // A leader that the error named is not doubted.
    const isDoubtful = error instanceof NotLeaderError ? leader === asked.leader : error instanceof UnavailableError;
    if (leader !== undefined && isDoubtful) this.session.routes.doubt(route, leader);
  }

  #refresh(): void {
    if (this.#isRefreshing || steadyMs() - this.#refreshedMs < REFRESH_MS) return;
    this.#isRefreshing = true;
    const options = { deadlineMs: steadyMs() + this.options.timeoutMs };
    this.session.submit("getMetadata", { topics: [this.topic] }, options, (result) => {
      this.#isRefreshing = false;
      this.#refreshedMs = steadyMs();
      if (result instanceof FlotillaError || !result.topics.length) return;
      this.session.routes.update(result, [this.topic]);
      this.adapt();
    });
  }
}
