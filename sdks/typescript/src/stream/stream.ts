/**
 * A stream consumer: reads the partitions that its group has assigned to it.
 *
 * Partitions come and go between two messages, in the task that asks for the next one: callbacks run there. A message
 * counts as handled when the application polls again, so an automatic commit never includes a message that is still in
 * its handler.
 */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import type { Session } from "../core/session.js";
import { Closing, type Limits, steadyMs, TimeLimit } from "../core/time.js";
import { ConnectionClosedError, FlotillaError, InvalidArgumentError, StaleGenerationError, TopicReplacedError } from "../errors.js";
import { atLeast, type Filter, readFilter, readStart, type StartAt } from "../filter.js";
import type { Message } from "../message.js";
import { Fetcher, fetchOptions, type FetchSettings } from "../reader/fetcher.js";
import { type Asking, findOffset, readOffset, startOffset } from "../reader/positions.js";
import { type Owned, type Recall, StreamMember } from "./member.js";

export interface StreamSettings extends Filter, FetchSettings {
  /** Where the group begins in a partition without a commit; by default "earliest". */
  start?: StartAt;
  /** How partitions are spread. The first member decides; by default as the group has it, else sticky. */
  strategy?: "sticky" | "round-robin";
  /** A member that is silent for this long leaves the group. The first member decides; by default 30 s. */
  sessionMs?: number;
  /** Called with the partitions that are read from now on; it may seek. */
  onAssign?: (partitions: number[]) => unknown;
  /**
   * Called with partitions before they are given up, and false: it may commit. When the group took them without asking,
   * with true: another member may read them already, and a commit is refused.
   */
  onRevoke?: (partitions: number[], isLost: boolean) => unknown;
  /** How often to commit what was handled, and whenever partitions are given up. By default only `commit` does. */
  autoCommitMs?: number;
  /** A member that does not poll for this long loses partitions that others wait for; five minutes. */
  pollMsMax?: number;
  timeoutMs?: number;
  /** Ends an iteration with its reason. */
  signal?: AbortSignal;
}

/** Leaving is optional: the group removes a member that stops its heartbeats. */
const LEAVE_MS_MAX = 5_000;

/** The offset to commit for a partition, and its epoch. */
interface Mark {
  offset: number;
  epoch: number;
  topicId: number;
}

interface Assigned {
  epoch: number;
  topicId: number;
  /** The offset that this member knows to be committed. */
  committed: number;
}

/** Made by `Client.stream`. For one task at a time: iterate it, or poll it. It never ends by itself. */
export class Stream {
  readonly #session: Session;
  readonly #settings: StreamSettings;
  readonly #member: StreamMember;
  readonly #fetcher: Fetcher;
  readonly #asking: Asking;
  readonly #assigned = new Map<number, Assigned>();
  // The first offset, by partition, of the messages that are being handled.
  #inHand = new Map<number, number>();
  readonly #commits = new Set<Promise<unknown>>();
  #commitDueMs = 0;
  readonly #closing = new Closing();

  /** @internal */
  constructor(
    session: Session,
    readonly topic: string,
    readonly group: string,
    settings: StreamSettings,
    timeoutMs: number,
    private readonly closed: (stream: Stream) => void,
  ) {
    if (!group) throw new InvalidArgumentError("a stream is shared by a group: stream(topic, group)");
    this.#session = session;
    this.#settings = settings;
    this.#asking = { timeoutMs: settings.timeoutMs ?? timeoutMs };
    if (settings.autoCommitMs !== undefined) atLeast(1, "autoCommitMs", settings.autoCommitMs);
    const options = fetchOptions(settings, readFilter(settings), this.#asking.timeoutMs);
    this.#fetcher = new Fetcher(session, topic, options, (topicId) => this.#member.replaced(topicId));
    const member = {
      start: readStart(settings.start),
      strategy: settings.strategy ?? "",
      sessionMs: settings.sessionMs ?? 0,
      pollMsMax: atLeast(1, "pollMsMax", settings.pollMsMax ?? 300_000),
      timeoutMs: this.#asking.timeoutMs,
    };
    const name = `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`;
    this.#member = new StreamMember(session, topic, group, name, member, () => this.#fetcher.news.set());
  }

  /** The name of this member in the group. */
  get member(): string {
    return this.#member.name;
  }

  /** The partitions that this member reads now. */
  get assignment(): number[] {
    return [...this.#assigned.keys()].sort((one, other) => one - other);
  }

  /** How many records are still to be read, those that are buffered included; undefined: not known yet. */
  get behind(): number | undefined {
    return this.#fetcher.behind;
  }

  /**
   * Up to `maxMessages` messages; waits up to `waitMs` for the first one, and returns [] if none comes. A poll says that
   * all messages before it were handled. The first call joins the group.
   */
  async poll(maxMessages = 500, { waitMs = 1_000, signal }: { waitMs?: number; signal?: AbortSignal } = {}): Promise<Message[]> {
    this.#enter();
    const limit = new TimeLimit(waitMs);
    for (;;) {
      await this.#catchUp();
      const messages = this.#fetcher.take(maxMessages);
      this.#fetcher.fetch();
      if (messages.length || !limit.leftMs) {
        // Backwards, so that the first offset of each partition remains.
        for (const message of [...messages].reverse()) this.#inHand.set(message.partition, message.offset);
        return messages;
      }
      await this.#wait(limit.leftMs, signal);
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message, void, undefined> {
    while (!this.#closing.isBegun) {
      const message = await this.#next(this.#settings.signal);
      if (message) yield message;
    }
  }

  async #next(signal: AbortSignal | undefined): Promise<Message | undefined> {
    this.#enter();
    for (;;) {
      signal?.throwIfAborted();
      if (this.#member.changes.length || this.#member.errors.length || this.#settings.autoCommitMs) await this.#catchUp();
      const message = this.#fetcher.takeOne();
      if (message) {
        this.#inHand.set(message.partition, message.offset);
        return message;
      }
      this.#fetcher.fetch();
      try {
        await this.#wait(Infinity, signal);
      } catch (error) {
        if (this.#closing.isBegun && error instanceof ConnectionClosedError) return undefined;
        throw error;
      }
    }
  }

  /**
   * Commits everything that was returned so far, or the given offsets, by partition. Resolves with the committed offsets
   * of the group; rejects with StaleGenerationError when another member has the partition by now.
   */
  async commit(offsets?: ReadonlyMap<number, number>, limits: Limits = {}): Promise<Map<number, number>> {
    this.#checkOpen();
    return this.#commit(offsets ? this.#marks(offsets) : this.#uncommitted(this.#fetcher.positions), limits);
  }

  /** The committed offset of the group, by partition of this member; undefined: it never committed there. */
  async committed(limits: Limits = {}): Promise<Map<number, number | undefined>> {
    this.#checkOpen();
    const found = this.assignment.map(async (partition): Promise<[number, number | undefined]> => {
      const asking = { ...this.#asking, ...limits };
      return [partition, await readOffset(this.#session, this.group, { topic: this.topic, partition }, asking)];
    });
    return new Map(await Promise.all(found));
  }

  /** The offset of the next message, by partition of this member. */
  get positions(): Map<number, number> {
    return this.#fetcher.positions;
  }

  /** How many messages are still to be read, by partition of this member. */
  async lag(limits: Limits = {}): Promise<Map<number, number>> {
    this.#checkOpen();
    const found = [...this.#fetcher.positions].map(async ([partition, position]): Promise<[number, number]> => {
      const place = { topic: this.topic, partition };
      const end = await findOffset(this.#session, place, "latest", { ...this.#asking, ...limits });
      return [partition, Math.max(end - position, 0)];
    });
    return new Map(await Promise.all(found));
  }

  /** Moves one partition of this member, or all of them. */
  async seek(at: StartAt, { partition, signal }: { partition?: number; signal?: AbortSignal } = {}): Promise<void> {
    this.#checkOpen();
    for (const number of partition === undefined ? this.assignment : [partition]) {
      const place = { topic: this.topic, partition: number };
      const offset = await startOffset(this.#session, place, at, { ...this.#asking, signal });
      this.#fetcher.seek(number, offset);
      this.#inHand.delete(number);
    }
  }

  /** Returns no messages of these partitions, or of all, until they are resumed. This member keeps them. */
  pause(partitions: Iterable<number> = this.assignment): void {
    for (const partition of partitions) this.#fetcher.pause(partition);
  }

  resume(partitions: Iterable<number> = this.#fetcher.paused): void {
    for (const partition of partitions) this.#fetcher.resume(partition);
    this.#fetcher.news.set();
  }

  /** Counts everything that was returned as handled, gives up the partitions, and leaves the group. */
  async close({ timeoutMs = this.#asking.timeoutMs, signal }: Limits = {}): Promise<void> {
    await this.#closing.run(() => this.#close(new TimeLimit(timeoutMs)), signal);
  }

  async #close(limit: TimeLimit): Promise<void> {
    this.#fetcher.news.set();
    this.#inHand.clear();
    try {
      const lost = this.#member.changes.filter((change): change is Recall => "isLost" in change);
      this.#member.changes.length = 0;
      for (const recall of lost) await this.#giveUp([recall], limit.leftMs);
      await this.#giveUp([...this.#assigned].map(([partition, { epoch }]) => ({ partition, epoch, isLost: false })), limit.leftMs);
      await Promise.allSettled(this.#commits);
    } finally {
      this.#fetcher.close();
      this.closed(this);
      await this.#member.leave(Math.min(limit.leftMs || 1, LEAVE_MS_MAX));
    }
    this.#throwError();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // Inside.

  #enter(): void {
    this.#checkOpen();
    this.#inHand.clear();
    this.#member.begin();
  }

  /** Takes in changes of the group, and errors of commits, since the last call. */
  async #catchUp(): Promise<void> {
    const { changes } = this.#member;
    while (changes.length && !this.#closing.isBegun) {
      const isRecall = "isLost" in changes[0]!;
      let count = 1;
      while (count < changes.length && "isLost" in changes[count]! === isRecall) count++;
      const taken = changes.splice(0, count);
      if (isRecall) {
        for (const isLost of [true, false]) await this.#giveUp((taken as Recall[]).filter((each) => each.isLost === isLost));
      } else {
        for (const owned of taken as Owned[]) this.#add(owned);
        await this.#settings.onAssign?.((taken as Owned[]).map((owned) => owned.partition));
      }
    }
    this.#throwError();
    if (!this.#settings.autoCommitMs || steadyMs() < this.#commitDueMs) return;
    this.#commitDueMs = steadyMs() + this.#settings.autoCommitMs;
    this.#commitSoon(this.#unsaved());
  }

  #add(owned: Owned): void {
    const { partition, epoch, topicId, offset, isCommitted } = owned;
    // The first position is worth a commit: `latest` moves.
    this.#assigned.set(partition, { epoch, topicId, committed: isCommitted ? offset : offset - 1 });
    this.#fetcher.add(partition, offset, topicId);
  }

  async #giveUp(recalls: readonly Recall[], timeoutMs = this.#asking.timeoutMs): Promise<void> {
    if (!recalls.length) return;
    const own = recalls.filter(({ partition, epoch }) => this.#assigned.get(partition)?.epoch === epoch);
    const partitions = own.map((recall) => recall.partition);
    const isLost = recalls[0]!.isLost;
    try {
      if (partitions.length) {
        await this.#settings.onRevoke?.(partitions, isLost);
        if (!isLost) await this.#save(partitions, timeoutMs);
      }
    } finally {
      for (const partition of partitions) {
        this.#assigned.delete(partition);
        this.#inHand.delete(partition);
        this.#fetcher.remove(partition);
      }
      this.#member.gaveUp(new Map(recalls.map(({ partition, epoch }) => [partition, epoch])));
    }
  }

  /** Commits what was handled, if commits are automatic. */
  async #save(partitions: readonly number[], timeoutMs: number): Promise<void> {
    if (!this.#settings.autoCommitMs) return;
    const marks = new Map([...this.#unsaved()].filter(([partition]) => partitions.includes(partition)));
    try {
      await this.#commit(marks, { timeoutMs: timeoutMs || 1 });
    } catch (error) {
      // Another member is further, or begins at the last commit.
      if (error instanceof StaleGenerationError || error instanceof TopicReplacedError) return;
      if (!(error instanceof FlotillaError)) throw error;
      this.#member.errors.push(error);
    }
  }

  /** Everything that was handled and is not committed. */
  #unsaved(): Map<number, Mark> {
    return this.#uncommitted(new Map([...this.#fetcher.positions, ...this.#inHand]));
  }

  #uncommitted(positions: ReadonlyMap<number, number>): Map<number, Mark> {
    const isNew = ([partition, offset]: [number, number]): boolean => {
      const assigned = this.#assigned.get(partition);
      return assigned !== undefined && offset > assigned.committed;
    };
    return this.#marks(new Map([...positions].filter(isNew)));
  }

  /** Throws StaleGenerationError for a partition of another member. */
  #marks(offsets: ReadonlyMap<number, number>): Map<number, Mark> {
    return new Map(
      [...offsets].map(([partition, offset]) => {
        const assigned = this.#assigned.get(partition);
        if (!assigned) throw new StaleGenerationError(`partition ${partition} is not one of this member's: ${this.assignment.join()}`);
        return [partition, { offset, epoch: assigned.epoch, topicId: assigned.topicId }];
      }),
    );
  }

  async #commit(marks: ReadonlyMap<number, Mark>, limits: Limits = {}): Promise<Map<number, number>> {
    const asking = { ...this.#asking, ...limits };
    const found = await Promise.allSettled(
      [...marks].map(async ([partition, mark]): Promise<[number, number]> => {
        const fields = { group: this.group, topic: this.topic, partition, ...mark };
        try {
          const { offset } = await this.#session.call("commitOffset", fields, { ...asking, effect: "repeatable" });
          const assigned = this.#assigned.get(partition);
          if (assigned?.epoch === mark.epoch) assigned.committed = Math.max(assigned.committed, mark.offset);
          return [partition, offset];
        } catch (error) {
          if (error instanceof StaleGenerationError) this.#member.lost(partition, mark.epoch);
          if (error instanceof TopicReplacedError) this.#member.replaced(mark.topicId);
          throw error;
        }
      }),
    );
    return new Map(
      found.map((each) => {
        if (each.status === "rejected") throw each.reason;
        return each.value;
      }),
    );
  }

  /** Commits without waiting; the next call throws an unexpected error. */
  #commitSoon(marks: ReadonlyMap<number, Mark>): void {
    if (!marks.size) return;
    const commit: Promise<unknown> = this.#commit(marks)
      .catch((error: unknown) => {
        const isExpected = error instanceof StaleGenerationError || error instanceof TopicReplacedError;
        if (error instanceof FlotillaError && !error.retryable && !isExpected) this.#member.errors.push(error);
      })
      .finally(() => this.#commits.delete(commit));
    this.#commits.add(commit);
  }

  async #wait(waitMs: number, signal?: AbortSignal): Promise<void> {
    const dueMs = this.#settings.autoCommitMs ? Math.max(this.#commitDueMs - steadyMs(), 1) : Infinity;
    await this.#fetcher.news.wait(Math.min(waitMs, dueMs), signal);
    this.#fetcher.news.clear();
    this.#checkOpen();
  }

  #checkOpen(): void {
    if (this.#closing.isBegun) throw new ConnectionClosedError("the consumer is closed");
  }

  #throwError(): void {
    const error = this.#member.errors.shift();
    if (error) throw error;
  }
}
