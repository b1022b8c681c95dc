/**
 * The leaders of the partitions that one queue consumer takes from, as polls and subscriptions use them.
 *
 * Known leaders may be out of date. The leader of a partition whose request failed is forgotten, and the partition is
 * asked for alone, which makes the session find the new leader. Metadata are refreshed now and then, which also shows
 * partitions that the topic has got since. A partition is covered while a request for it is in flight at its known leader.
 */

import type { Reply } from "../codec/operations.js";
import { backoffMs, doubledMs, isPassing } from "../core/call.js";
import { type Address, routeTo } from "../core/routes.js";
import type { Session } from "../core/session.js";
import { steadyMs } from "../core/time.js";
import { FlotillaError, NotLeaderError, TopicReplacedError, UnavailableError } from "../errors.js";
import type { QueueOptions } from "./options.js";

/** How long a consumer that is closed waits for the leaders that it leaves. */
export const LEAVE_MS_MAX = 1_000;
/** How often metadata are refreshed. */
const REFRESH_MS = 10_000;

/** The partitions that one leader is asked for; undefined: it is not known, and the session finds it. */
export interface Asked {
  leader: Address | undefined;
  partitions: number[];
}

/** Consecutive failed or hasty answers: since when, how many, and until when to pause. */
interface Failures {
  sinceMs: number;
  count: number;
  pauseMs: number;
}

/** What an answer brings. */
export type Arrival = Pick<Reply<"poll">, "deliveries" | "visibilityMs">;

/** The consumer. */
export interface LeadersOwner {
  /** A request for these partitions is about to be sent. */
  asking(partitions: readonly number[]): void;
  arrived(arrival: Arrival): void;
  /** An error that retrying does not cure. */
  askingFailed(error: FlotillaError): void;
  /** For each partition of an answer. */
  answered(partition: number): void;
  /** For each partition that has another leader now. */
  moved(partition: number): void;
}

export const NOTHING: Arrival = { deliveries: [], visibilityMs: 0 };

export class Leaders {
  partitions: number[] = [];
  readonly #failures = new Map<number, Failures>();
  // How many messages are unsettled, by the partitions of an answer.
  #lags = new Map<string, { partitions: number[]; lag: number }>();
  // The leaders that were asked: to them the consumer is a member.
  readonly #met = new Set<Address>();
  #refreshedMs = steadyMs();
  #isRefreshing = false;

  constructor(
    readonly session: Session,
    readonly topic: string,
    readonly group: string,
    readonly member: string,
    readonly options: QueueOptions,
    readonly owner: LeadersOwner,
  ) {}

  /** When the pause of a partition ends. */
  get nextMs(): number {
    const nowMs = steadyMs();
    const pauses = [...this.#failures.values()].map((each) => each.pauseMs).filter((each) => each > nowMs);
    return Math.min(Infinity, ...pauses);
  }

  /** When metadata are refreshed next. */
  get refreshMs(): number {
    return this.#isRefreshing ? Infinity : this.#refreshedMs + REFRESH_MS;
  }

  /** Of the topic that is read; 0: not known, because it was deleted and perhaps created again. */
  get topicId(): number {
    return this.session.routes.topics.get(this.topic)?.topicId ?? 0;
  }

  /** Unsettled messages of the group in these partitions; undefined: no answer has told yet. */
  get lag(): number | undefined {
    return this.#lags.size ? [...this.#lags.values()].reduce((sum, each) => sum + each.lag, 0) : undefined;
  }

  of(partition: number): Address | undefined {
    return this.session.routes.leader(this.topic, partition);
  }

  /** Takes over the partitions of the topic, which may have grown. */
  adapt(): void {
    const topic = this.session.routes.topics.get(this.topic);
    if (topic) this.partitions = this.options.partitions ?? topic.partitions.map((part) => part.number);
  }

  /** Partitions that no request covers and that have no pause, by leader. */
  uncovered(asked: Iterable<Asked>): number[][] {
    const covered = new Set<number>();
    for (const { leader, partitions } of asked) {
      for (const number of partitions) {
        const known = this.of(number);
        if (leader === undefined || known === undefined || known === leader) covered.add(number);
      }
    }
    const groups = new Map<Address | number, number[]>();
    for (const number of this.partitions) {
      if (covered.has(number) || (this.#failures.get(number)?.pauseMs ?? 0) > steadyMs()) continue;
      const key = this.of(number) ?? number;
      const group = groups.get(key);
      if (group) group.push(number);
      else groups.set(key, [number]);
    }
    return [...groups.values()];
  }

  /** The fields that a request for these partitions has in any case. It is about to be sent. */
  request(partitions: number[]) {
    const { options, topic, group, member } = this;
    this.owner.asking(partitions);
    const leader = this.of(partitions[0]!);
    if (leader !== undefined) this.#met.add(leader);
    return {
      topic, group, member, partitions, maxBytes: options.fetchBytes, presents: true, visibilityMs: options.visibilityMs,
      isAutoAck: options.isAutoAck, isOrderedByKey: options.isOrderedByKey, start: options.start, topicId: this.topicId,
      ...options.filter,
    };
  }

  /** Their leader has answered, with the lag of all of them if it said that. */
  answered(partitions: number[], lag: number | undefined): void {
    if (lag !== undefined && lag >= 0) this.learnLag(partitions, lag);
    for (const number of partitions) {
      this.owner.answered(number);
      const leader = this.of(number);
      if (leader !== undefined) this.#met.add(leader);
    }
  }

  /** An answer takes the place of all earlier ones that counted one of its partitions. */
  learnLag(partitions: number[], lag: number): void {
    for (const [key, known] of this.#lags) {
      if (known.partitions.some((number) => partitions.includes(number))) this.#lags.delete(key);
    }
    this.#lags.set(partitions.join(), { partitions, lag });
  }

  /** A partition is asked for again later: after a pause that doubles from `firstMs` on, and lasts `leastMs` at least. */
  pause(number: number, leastMs: number, firstMs: number, mostMs: number): void {
    const failures = this.#failuresOf(number);
    failures.count++;
    failures.pauseMs = steadyMs() + Math.max(leastMs, doubledMs(firstMs, failures.count, mostMs));
  }

  recovered(number: number): void {
    this.#failures.delete(number);
  }

  #failuresOf(number: number): Failures {
    let failures = this.#failures.get(number);
    if (!failures) this.#failures.set(number, (failures = { sinceMs: steadyMs(), count: 0, pauseMs: 0 }));
    return failures;
  }

  /** A request has failed. */
  failed(asked: Asked, error: FlotillaError): void {
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
    if (isLasting) this.owner.askingFailed(error);
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

  /** Forgets the leader, so that the partition is asked for alone next time and does not hold up the others. */
  #doubt(number: number, asked: Asked, error: FlotillaError): void {
    const route = routeTo(this.topic, number);
    const leader = this.session.routes.find(route);
    // A leader that the error named is not doubted.
    const isDoubtful = error instanceof NotLeaderError ? leader === asked.leader : error instanceof UnavailableError;
    if (leader !== undefined && isDoubtful) this.session.routes.doubt(route, leader);
  }

  /** Asks for metadata now and then. */
  refresh(): void {
    if (steadyMs() < this.refreshMs) return;
    this.#isRefreshing = true;
    const options = { deadlineMs: steadyMs() + this.options.timeoutMs };
    this.session.submit("getMetadata", { topics: [this.topic] }, options, (result) => {
      this.#isRefreshing = false;
      this.#refreshedMs = steadyMs();
      if (!(result instanceof FlotillaError) && result.topics.length) {
        this.session.routes.update(result, [this.topic]);
        this.adapt();
      }
      this.owner.arrived(NOTHING);
    });
  }

  /** Tells the leaders that the consumer is closed. One that cannot be reached now notices the lost connection. */
  async leave(timeoutMs: number): Promise<void> {
    const told = new Set<Address>();
    const leaving: Promise<unknown>[] = [];
    const { topic, group, member, session } = this;
    for (const partition of this.partitions) {
      const leader = this.of(partition);
      if (leader === undefined || told.has(leader) || !this.#met.has(leader) || !session.hasOpenLink(leader)) continue;
      told.add(leader);
      const options = { timeoutMs: Math.min(timeoutMs, LEAVE_MS_MAX), isSingle: true };
      leaving.push(session.call("leaveQueue", { topic, group, member, partition }, options).catch(() => undefined));
    }
    await Promise.all(leaving);
  }
}
