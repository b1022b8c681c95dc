/**
 * A queue consumer: messages under leases, each to be settled.
 *
 * An iterating consumer polls all the time for as many messages as it has free slots. A slot is free when its message is
 * settled, so a slow handler occupies one slot only. With delivery by push it subscribes instead, and its free slots are
 * the credit. A polling consumer polls when the application does and nothing is ready; with push it takes what was sent.
 * A message that is not taken before half of its lease is over is released, for a quicker consumer.
 */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import { BatchView } from "../codec/batch-view.js";
import type { Delivery } from "../codec/values.js";
import type { Session, SessionWatcher } from "../core/session.js";
import { AtEndOfTurn, Closing, deferred, type Limits, News, steadyMs, TimeLimit, unlessAborted } from "../core/time.js";
import {
  ConnectionClosedError, CorruptionError, FlotillaError, InvalidArgumentError, OutcomeUnknownError,
} from "../errors.js";
import { chosenPartitions } from "../filter.js";
import { type Arrival, Leaders, LEAVE_MS_MAX } from "./leaders.js";
import { Lease, leaseExpired, Leases } from "./leases.js";
import { type FollowUp, QueueMessage } from "./message.js";
import { type QueueOptions, PrefetchWindow } from "./options.js";
import { ACKED, FAIL, failed, type Outcome, RELEASED, released } from "./outcome.js";
import { LONG_POLL_MS, POLL_MESSAGES_MAX, Polls } from "./polls.js";
import { Presentations } from "./presentations.js";
import { LeaseRenewal } from "./renewal.js";
import { type Ended, Settlements } from "./settlements.js";
import { Subscriptions } from "./subscriptions.js";
import type { Supply } from "./supply.js";

/** Messages whose unawaited settlement has no answer; beyond that, settling waits. */
const UNCONFIRMED_MAX = 8_192;

type ByLease = Map<Lease, number[]>;

/** Made by `Client.queue`: iterate it, or poll it. It never ends by itself. */
export class Queue {
  /** The name of this consumer in the group. */
  readonly member = `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`;
  readonly #session: Session;
  readonly #options: QueueOptions;
  // What a handler settles in one turn leaves together.
  readonly #pumping = new AtEndOfTurn(() => this.#pump());
  readonly #leases = new Leases(() => this.#pumping.schedule());
  readonly #renewal: LeaseRenewal;
  readonly #settlements: Settlements;
  readonly #leaders: Leaders;
  // undefined: messages are pushed.
  readonly #polls: Polls | undefined;
  readonly #supply: Supply;
  readonly #presentations: Presentations;
  readonly #window: PrefetchWindow;
  readonly #news = new News();
  readonly #watcher: SessionWatcher = {
    linkLost: (address) => this.#presentations.linkLost(address),
    leadersMoved: () => this.#pumping.schedule(),
  };
  #ready: QueueMessage[] = [];
  #errors: FlotillaError[] = [];
  #prepared: Promise<void> | undefined;
  // The messages that the application polls for, and until when.
  #wanted = 0;
  #wantedUntilMs = 0;
  // Messages of the last poll, where they are pushed and the window adapts: so many are sent ahead for the next poll.
  #ahead = 0;
  #isFlowing = false;
  readonly #closing = new Closing();
  #takenOver = 0;
  #alarm: NodeJS.Timeout | undefined;
  #alarmMs = Infinity;

  /** @internal */
  constructor(
    session: Session,
    readonly topic: string,
    readonly group: string,
    options: QueueOptions,
    private readonly closed: (queue: Queue) => void,
    /** @internal */
    readonly followUp: FollowUp,
  ) {
    if (!group) throw new InvalidArgumentError("a queue is read by a group: queue(topic, group)");
    this.#session = session;
    this.#options = options;
    const answered = (partition: number): void => this.#presentations.answered(partition);
    const changed = (): void => this.#pump();
    const { isOrderedByKey, timeoutMs, visibilityMs, leaseMsMax } = options;
    this.#renewal = new LeaseRenewal(
      session, topic, group, this.member, this.#leases, visibilityMs, leaseMsMax, answered, changed,
    );
    this.#settlements = new Settlements(session, topic, group, timeoutMs, isOrderedByKey, answered, () => this.#settlements.flush());
    this.#leaders = new Leaders(session, topic, group, this.member, options, {
      asking: (partitions) => {
        if (!options.isAutoAck) this.#presentations.polled(partitions);
      },
      arrived: (arrival) => this.#arrived(arrival),
      askingFailed: (error) => {
        if (!this.#closing.isBegun) this.#errors.push(error);
        this.#news.set();
      },
      answered,
      moved: (partition) => this.#presentations.present(partition),
    });
    this.#polls = options.isPushed ? undefined : new Polls(this.#leaders, options.asksAhead);
    this.#supply = this.#polls ?? new Subscriptions(this.#leaders);
    const topicId = (): number => this.#leaders.topicId;
    this.#presentations = new Presentations(session, topic, this.#leases, this.#renewal, this.#settlements, topicId, changed);
    this.#window = new PrefetchWindow(options, steadyMs());
    session.watchers.add(this.#watcher);
  }

  /**
   * How many messages the group has not settled, those that it holds included, in the partitions polled here, as the
   * brokers' answers to this consumer said last. undefined: there was no answer yet.
   */
  get behind(): number | undefined {
    return this.#leaders.lag;
  }

  /**
   * Leases up to `maxMessages` messages; waits up to `waitMs` for the first one. Returns [] if none comes. With delivery by
   * push it takes messages that were sent already, or waits for some.
   */
  async poll(maxMessages = 16, { waitMs = 20_000, signal }: { waitMs?: number; signal?: AbortSignal } = {}): Promise<QueueMessage[]> {
    this.#checkOpen();
    this.#throwError();
    if (!(maxMessages >= 1) || !(waitMs >= 0)) {
      throw new InvalidArgumentError("maxMessages is at least 1, and waitMs at least 0");
    }
    if (!this.#ready.length) await this.#fetch(maxMessages, waitMs, signal);
    const messages = this.#ready.splice(0, maxMessages);
    if (!messages.length) {
      this.#checkOpen();
      this.#throwError();
    }
    return messages;
  }

  async #fetch(maxMessages: number, waitMs: number, signal: AbortSignal | undefined): Promise<void> {
    const untilMs = steadyMs() + waitMs;
    await this.#prepare(signal);
    if (this.#polls) {
      this.#wanted = maxMessages;
      this.#wantedUntilMs = untilMs;
      if (!this.#isFlowing) this.#polls.beginRound();
    } else {
      this.#isFlowing = true;
      this.#ahead = this.#options.prefetch === undefined ? Math.min(maxMessages, POLL_MESSAGES_MAX) : 0;
    }
    this.#pump();
    try {
      while (!this.#ready.length && !this.#errors.length && !this.#closing.isBegun) {
        const leftMs = untilMs - steadyMs();
        if (leftMs <= 0 && !this.#supply.isSearching) return;
        this.#news.clear();
        await this.#news.wait(leftMs > 0 ? leftMs : this.#options.timeoutMs, signal);
      }
    } finally {
      this.#wanted = 0;
    }
  }

  /**
   * Messages as they come, for ever. Ends when the consumer is closed: with `ackMode: "auto"` after the messages that
   * the brokers have sent, which nobody gets again.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<QueueMessage, void, undefined> {
    for (;;) {
      const message = await this.next(this.#options.signal);
      if (!message) return;
      yield message;
    }
  }

  /** The next message, however long it takes; undefined: the consumer was closed. */
  async next(signal?: AbortSignal): Promise<QueueMessage | undefined> {
    signal?.throwIfAborted();
    this.#throwError();
    if (!this.#ready.length && !this.#closing.isBegun) {
      await this.#prepare(signal);
      this.#isFlowing = true;
      this.#polls?.endRound();
      this.#pumping.schedule();
    }
    while (!this.#ready.length && !this.#isOver) {
      this.#news.clear();
      await this.#news.wait(Infinity, signal);
      this.#throwError();
    }
    const message = this.#ready.shift();
    if (!this.#ready.length) this.#pumping.schedule();
    return message;
  }

  /** Acknowledges messages, and returns when that is on disk at a majority. Rejects with LeaseExpiredError. */
  ack(messages: Iterable<QueueMessage>, options: SettleOptions = {}): Promise<void> {
    return this.settle(messages, ACKED, options);
  }

  /** Fails messages: see `nack` of a message. */
  nack(messages: Iterable<QueueMessage>, options: SettleOptions & { reason?: string; delayMs?: number } = {}): Promise<void> {
    return this.settle(messages, failed(options.reason ?? "", options.delayMs), options);
  }

  /** Gives messages back: see `release` of a message. */
  release(messages: Iterable<QueueMessage>, options: SettleOptions & { delayMs?: number } = {}): Promise<void> {
    return this.settle(messages, released(options.delayMs ?? 0), options);
  }

  /** Waits until everything settled with `wait: false` has its answer. Rejects with the first error. */
  async flush(limits: Limits = {}): Promise<void> {
    this.#settlements.hurry();
    await this.#waitWhile(() => this.#settlements.count > 0, limits.timeoutMs ?? Infinity, limits.signal);
    this.#throwError();
  }

  /**
   * Leases nothing more, waits up to `drainMs` for unsettled messages, and gives the rest back. Rejects with the first
   * error of messages settled with `wait: false`, and with OutcomeUnknownError when answers are missing at the limit.
   */
  async close({ drainMs = 0, timeoutMs = this.#options.timeoutMs, signal }: { drainMs?: number } & Limits = {}): Promise<void> {
    await this.#closing.run(() => this.#close(drainMs, timeoutMs), signal);
  }

  async #close(drainMs: number, timeoutMs: number): Promise<void> {
    this.#isFlowing = false;
    this.#wanted = 0;
    this.#news.set();
    if (!this.#options.isAutoAck) this.#release(this.#ready.splice(0));
    this.#settlements.hurry();
    this.#supply.withdraw();
    try {
      await this.#waitWhile(() => this.#leases.unsettledCount > 0, drainMs);
      // What polls have leased meanwhile comes, and is given back, too.
      const arriving = (): Promise<void> => this.#waitWhile(() => !this.#supply.isIdle, Math.min(timeoutMs, LEAVE_MS_MAX));
      // A poll for messages that are acknowledged on delivery goes on until its consumer leaves.
      const isAnsweredByLeaving = this.#options.isAutoAck && this.#polls !== undefined;
      if (!isAnsweredByLeaving) await arriving();
      for (const lease of this.#leases.all()) this.#settle(new Map([[lease, lease.unsettled()]]), RELEASED, ignore);
      this.#settlements.hurry();
      const limit = new TimeLimit(timeoutMs);
      await this.#waitWhile(() => this.#settlements.count > 0, limit.leftMs);
      if (!this.#session.isClosed) await this.#leaders.leave(limit.leftMs || 1);
      if (isAnsweredByLeaving) await arriving();
      if (this.#settlements.count && !this.#errors.length) {
        throw new OutcomeUnknownError(`${this.#settlements.count} messages were settled without an answer within ${timeoutMs} ms`);
      }
      this.#throwError();
    } finally {
      clearTimeout(this.#alarm);
      this.#session.watchers.delete(this.#watcher);
      this.closed(this);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // What messages use.

  /** @internal */
  async settle(messages: Iterable<QueueMessage>, outcome: Outcome, { wait = true, signal }: SettleOptions = {}): Promise<void> {
    if (!wait) {
      for (const { lease, offset } of messages) this.#settleSoon(lease, offset, outcome);
      this.#pumping.schedule();
      if (this.#settlements.count > UNCONFIRMED_MAX) {
        await this.#waitWhile(() => this.#settlements.count > UNCONFIRMED_MAX, Infinity, signal);
      }
      return;
    }
    const leases: ByLease = new Map();
    for (const { lease, offset } of messages) {
      const known = leases.get(lease);
      if (known) known.push(offset);
      else leases.set(lease, [offset]);
    }
    const answer = deferred<void>();
    this.#settle(leases, outcome, (error) => (error ? answer.reject(error) : answer.resolve()));
    this.#pumping.schedule();
    await unlessAborted(answer.promise, signal);
  }

  /** @internal Sets the lease of one message to end `visibilityMs` from now. */
  async extend({ lease, offset }: QueueMessage, visibilityMs: number, signal?: AbortSignal): Promise<void> {
    this.#checkOpen();
    if (!(visibilityMs >= 1)) throw new InvalidArgumentError("visibilityMs is at least 1");
    if (lease.isSettled(offset)) throw leaseExpired(lease, [offset]);
    const answer = deferred<void>();
    const { place } = lease;
    const nowMs = steadyMs();
    const ranges = lease.runs([offset]);
    this.#renewal.submit(place, ranges, (result) => {
      if (result instanceof FlotillaError) {
        answer.reject(result);
        return;
      }
      const isRefused = lease.refused([offset], result.expired).length > 0;
      this.#leases.refuse(place.topicId, place.partition, result.expired);
      this.#presentations.answered(place.partition);
      if (isRefused) {
        answer.reject(leaseExpired(lease, [offset]));
        return;
      }
      lease.extended.set(offset, nowMs + visibilityMs - this.#renewal.visibilityMs);
      // Held and renewed again.
      this.#leases.hold(lease, offset);
      this.#pumping.schedule();
      answer.resolve();
    }, 0, visibilityMs);
    await unlessAborted(answer.promise, signal);
  }

  /** @internal A transaction has taken over messages: for this consumer they are settled. */
  takenOver(lease: Lease, offsets: readonly number[]): void {
    this.#takenOver += this.#leases.close(lease, offsets).length;
    this.#pumping.schedule();
    this.#news.set();
  }

  /** Settles messages with the next pump; `ended` is called once, when all are settled or refused. */
  #settle(leases: ByLease, outcome: Outcome, ended: (error?: FlotillaError) => void): void {
    let first: FlotillaError | undefined;
    let left = 1;
    const finish = (): void => {
      if (--left === 0) ended(first);
    };
    const answered: Ended = (lease, offsets, refused, error) => {
      if (error && !this.#closing.isBegun) this.#leases.fail(lease, offsets);
      first ??= error ?? (refused.length ? leaseExpired(lease, refused) : undefined);
      finish();
      this.#news.set();
    };
    for (const [lease, offsets] of leases) {
      const lost = offsets.filter((offset) => lease.isLost(offset));
      if (lost.length) first ??= leaseExpired(lease, lost);
      const closed = this.#leases.close(lease, offsets);
      if (!closed.length) continue;
      left++;
      this.#settlements.add(lease, closed, outcome, answered, true);
    }
    finish();
  }

  /** The same without waiting: it may linger, and a refusal becomes an error of the consumer. */
  #settleSoon(lease: Lease, offset: number, outcome: Outcome): void {
    if (lease.isLost(offset)) this.#errors.push(leaseExpired(lease, [offset]));
    const closed = this.#leases.close(lease, [offset]);
    if (closed.length) this.#settlements.add(lease, closed, outcome, this.#unawaited, false);
  }

  readonly #unawaited: Ended = (lease, offsets, refused, error) => {
    if (error) this.#leases.fail(lease, offsets);
    const found = error ?? (refused.length ? leaseExpired(lease, refused) : undefined);
    if (found) this.#errors.push(found);
    this.#news.set();
  };

  // Polling.

  async #prepare(signal: AbortSignal | undefined): Promise<void> {
    this.#checkOpen();
    this.#prepared ??= this.#findPartitions().catch((error: unknown) => {
      this.#prepared = undefined;
      throw error;
    });
    await unlessAborted(this.#prepared, signal);
    this.#checkOpen();
  }

  async #findPartitions(): Promise<void> {
    const asking = { timeoutMs: this.#options.timeoutMs };
    const { routes } = this.#session;
    const topic = await this.#session.topic(this.topic, asking);
    const numbers = chosenPartitions(topic, this.#options.partitions);
    if (numbers.some((number) => routes.leader(this.topic, number) === undefined)) {
      routes.update(await this.#session.call("getMetadata", { topics: [this.topic] }, asking), [this.topic]);
    }
    this.#leaders.adapt();
  }

  /** Sends pending settlements, renews leases, and polls where there is room. */
  #pump(): void {
    this.#settlements.flush();
    this.#renew();
    if (this.#isFlowing && this.#window.follow(this.#settlements.handled + this.#takenOver, steadyMs())) {
      // The window has shrunk: the excess is released.
      this.#release(this.#ready.splice(this.#window.size));
    }
    const isAsking = !this.#closing.isBegun && this.#ask();
    const dueMs = Math.min(this.#leases.nextMs, isAsking ? this.#supply.nextMs : Infinity);
    // An earlier alarm stays, and sets the next one.
    if (dueMs >= this.#alarmMs || this.#session.isClosed) return;
    this.#alarmMs = dueMs;
    clearTimeout(this.#alarm);
    this.#alarm = setTimeout(() => {
      this.#alarmMs = Infinity;
      this.#pump();
    }, Math.min(Math.max(dueMs - steadyMs(), 0) + 1, 2 ** 31 - 1));
  }

  /** Asks for messages where there is room. False: there is none, or enough are on their way. */
  #ask(): boolean {
    const ready = this.#ready.length;
    if (this.#isFlowing) {
      const { size } = this.#window;
      const free = size - (this.#options.isAutoAck ? ready : this.#leases.unsettledCount);
      return this.#supply.fill(Math.max(free, this.#ahead - ready), Math.max(size, this.#ahead), ready);
    }
    if (ready || !this.#wanted) return false;
    this.#polls?.ask(this.#wanted, Math.min(LONG_POLL_MS, Math.max(this.#wantedUntilMs - steadyMs(), 0)), false);
    return true;
  }

  #arrived({ deliveries, visibilityMs }: Arrival): void {
    if (visibilityMs) {
      this.#renewal.visibilityMs = visibilityMs;
      this.#settlements.limitLinger(visibilityMs);
    }
    for (const delivery of deliveries) this.#takeIn(delivery);
    if (this.#ready.length) this.#wanted = 0;
    this.#news.set();
    this.#pump();
  }

  #takeIn(delivery: Delivery): void {
    // Otherwise its leader is deposed, and this consumer does not hold the message.
    if (!this.#presentations.takes(delivery)) return;
    const lease = new Lease(this.topic, this.group, delivery);
    if (lease.unsettledCount) this.#renewal.add(lease);
    if (this.#closing.isBegun && lease.unsettledCount) {
      this.#settle(new Map([[lease, lease.unsettled()]]), RELEASED, ignore);
      return;
    }
    try {
      const view = new BatchView(delivery.batch);
      if (view.count !== delivery.count) {
        throw new InvalidArgumentError(`${delivery.count} messages were announced, ${view.count} came`);
      }
      const messages = Array.from({ length: view.count }, (_, at) => new QueueMessage(this, lease, view, at));
      lease.messages = messages;
      this.#ready.push(...messages);
    } catch (error) {
      const place = `partition ${delivery.partition} of ${this.topic} at offset ${delivery.first}`;
      this.#errors.push(new CorruptionError(`malformed delivery from ${place}: ${String(error)}`, { cause: error }));
      const outcome = { kind: FAIL, reason: "damaged in transit to a consumer", delayMs: -1 };
      this.#settle(new Map([[lease, lease.unsettled()]]), outcome, ignore);
    }
  }

  #renew(): void {
    const due = this.#renewal.due();
    if (!due.length) return;
    const late = new Set(due);
    this.#release(this.#ready.filter((message) => late.has(message.lease)));
    this.#ready = this.#ready.filter((message) => !late.has(message.lease));
    this.#renewal.renew(due.filter((lease) => lease.unsettledCount));
    this.#settlements.flush();
    this.#news.set();
  }

  #release(messages: readonly QueueMessage[]): void {
    for (const { lease, offset } of messages) this.#settle(new Map([[lease, [offset]]]), RELEASED, ignore);
  }

  // Inside.

  /** No message comes any more. Those that are acknowledged on delivery cannot be given back: an iteration gets them. */
  get #isOver(): boolean {
    return this.#closing.isBegun && (!this.#options.isAutoAck || this.#supply.isIdle);
  }

  async #waitWhile(isSo: () => boolean, limitMs: number, signal?: AbortSignal): Promise<void> {
    const limit = new TimeLimit(limitMs);
    while (isSo() && limit.leftMs && !this.#session.isClosed) {
      this.#news.clear();
      await this.#news.wait(limit.leftMs, signal);
    }
  }

  #checkOpen(): void {
    if (this.#closing.isBegun) throw new ConnectionClosedError("the consumer is closed");
  }

  /** Throws an error of background work. */
  #throwError(): void {
    const error = this.#errors.shift();
    if (error) throw error;
  }
}

/** How to settle: `wait` false returns at once, and the consumer's next call throws the error. */
export interface SettleOptions {
  wait?: boolean;
  signal?: AbortSignal;
}

function ignore(): void {
  // A release that fails is no error: the lease expires by itself.
}
