/** A reader: messages from an offset or a time on, committed by the application. It keeps its own position. */

import type { Session } from "../core/session.js";
import { type Limits, steadyMs, TimeLimit, unlessAborted } from "../core/time.js";
import { ConnectionClosedError, InvalidArgumentError } from "../errors.js";
import { chosenPartitions, type Filter, readFilter, type StartAt } from "../filter.js";
import type { Message } from "../message.js";
import { Fetcher, fetchOptions, type FetchSettings } from "./fetcher.js";
import { type Asking, type Place, readOffset, readPosition, startOffset } from "./positions.js";

export interface ReaderSettings extends Filter, FetchSettings {
  /** An offset, a time, "earliest" or "latest"; by default where `group` last committed, else the oldest record. */
  start?: StartAt;
  /** Whose committed offsets are read and written. */
  group?: string;
  /** By default all, those that are added later included. */
  partitions?: readonly number[];
  /** See every record that was acknowledged before, at the price of a round trip to a quorum a fetch. */
  linearizable?: boolean;
  timeoutMs?: number;
  /** Ends an iteration with its reason. */
  signal?: AbortSignal;
}

/** How often the reader looks for new partitions. */
const REFRESH_MS = 10_000;

/** Made by `Client.reader`. For one task at a time: iterate it, or poll it. It never ends by itself. */
export class Reader {
  readonly #fetcher: Fetcher;
  readonly #group: string;
  readonly #asking: Asking;
  #begun: Promise<void> | undefined;
  #topicId = 0;
  /** By partition, as of when the position of the group is known: a group that was deleted since is not moved. */
  readonly #asOf = new Map<number, number>();
  #lookedMs = steadyMs();
  #isClosed = false;

  /** @internal */
  constructor(
    private readonly session: Session,
    readonly topic: string,
    private readonly settings: ReaderSettings,
    timeoutMs: number,
    private readonly closed: (reader: Reader) => void,
  ) {
    this.#group = settings.group ?? "";
    this.#asking = { timeoutMs: settings.timeoutMs ?? timeoutMs };
    const options = fetchOptions(settings, readFilter(settings), this.#asking.timeoutMs, settings.linearizable ?? false);
    this.#fetcher = new Fetcher(session, topic, options);
  }

  /**
   * Up to `maxMessages` messages; waits up to `waitMs` for the first one, and returns [] if none comes. An error that
   * ends the reading is thrown when everything before it was returned.
   */
  async poll(maxMessages = 500, { waitMs = 1_000, signal }: { waitMs?: number; signal?: AbortSignal } = {}): Promise<Message[]> {
    const limit = new TimeLimit(waitMs);
    await this.#open(signal);
    for (;;) {
      this.#fetcher.news.clear();
      const messages = this.#fetcher.take(maxMessages);
      this.#fetcher.fetch();
      this.#look();
      if (messages.length || !limit.leftMs) return messages;
      await this.#fetcher.news.wait(limit.leftMs, signal);
      this.#checkOpen();
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message, void, undefined> {
    const { signal } = this.settings;
    await this.#open(signal);
    while (!this.#isClosed) {
      signal?.throwIfAborted();
      const message = this.#fetcher.takeOne();
      if (message) yield message;
      else {
        this.#fetcher.fetch();
        this.#look();
        await this.#fetcher.news.wait(Infinity, signal);
        this.#fetcher.news.clear();
      }
    }
  }

  /** How many records are still to be read, those that are buffered here included; undefined: not known yet. */
  get behind(): number | undefined {
    return this.#fetcher.behind;
  }

  /** Moves one partition, or all that are read. */
  async seek(at: StartAt, { partition, signal }: { partition?: number; signal?: AbortSignal } = {}): Promise<void> {
    await this.#open(signal);
    for (const number of partition === undefined ? this.#fetcher.partitions : [partition]) {
      const place = { topic: this.topic, partition: number, topicId: this.#topicId };
      this.#fetcher.seek(number, await startOffset(this.session, place, at, { ...this.#asking, signal }));
    }
  }

  /** The offset of the next message, by partition. */
  async positions(limits: Limits = {}): Promise<Map<number, number>> {
    await this.#open(limits.signal);
    return this.#fetcher.positions;
  }

  /**
   * Commits the positions for the group. Returns its committed offsets; they never move backwards. Rejects with
   * StaleGenerationError when the group was deleted since this reader began: nothing is committed for one that has its
   * name now.
   */
  async commit(limits: Limits = {}): Promise<Map<number, number>> {
    const group = this.#needGroup();
    await this.#open(limits.signal);
    const asking = { ...this.#asking, ...limits };
    const committed = [...this.#fetcher.positions].map(async ([partition, offset]): Promise<[number, number]> => {
      const fields = { group, topic: this.topic, partition, offset, topicId: this.#topicId, asOf: this.#knownAsOf(partition) };
      const found = await this.session.call("commitOffset", fields, asking);
      this.#asOf.set(partition, Math.max(this.#knownAsOf(partition), found.asOf));
      return [partition, found.offset];
    });
    return new Map(await Promise.all(committed));
  }

  /** The committed offset of the group, by partition; undefined: it never committed there. */
  async committed(limits: Limits = {}): Promise<Map<number, number | undefined>> {
    const group = this.#needGroup();
    await this.#open(limits.signal);
    const found = this.#fetcher.partitions.map(async (partition): Promise<[number, number | undefined]> => {
      const place = { topic: this.topic, partition, topicId: this.#topicId };
      return [partition, await readOffset(this.session, group, place, { ...this.#asking, ...limits })];
    });
    return new Map(await Promise.all(found));
  }

  /** Ends the reader; a pending `poll` rejects with ConnectionClosedError, and an iteration ends. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#fetcher.close();
    this.closed(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #needGroup(): string {
    if (!this.#group) throw new InvalidArgumentError("a reader without a group commits nothing: reader(topic, { group })");
    return this.#group;
  }

  async #open(signal?: AbortSignal): Promise<void> {
    this.#checkOpen();
    this.#begun ??= this.#begin().catch((error: unknown) => {
      this.#begun = undefined;
      throw error;
    });
    await unlessAborted(this.#begun, signal);
    this.#checkOpen();
  }

  async #begin(): Promise<void> {
    const topic = await this.session.topic(this.topic, this.#asking);
    this.#topicId = topic.topicId;
    const { topicId } = topic;
    await Promise.all(
      chosenPartitions(topic, this.settings.partitions).map(async (partition) => {
        const place = { topic: this.topic, partition, topicId };
        this.#fetcher.add(partition, await this.#first(place), topicId);
      }),
    );
  }

  /** Where a partition is read from: as asked, else where the group has committed. */
  async #first(place: Place): Promise<number> {
    const { start } = this.settings;
    const committed = this.#group ? await this.#lookUp(place) : -1;
    return start === undefined && committed >= 0 ? committed : startOffset(this.session, place, start, this.#asking);
  }

  /** The committed offset of the group. The life of the group that is seen first is the one that is committed for. */
  async #lookUp(place: Place): Promise<number> {
    const { offset, asOf } = await readPosition(this.session, this.#group, place, this.#asking);
    if (!this.#asOf.has(place.partition)) this.#asOf.set(place.partition, asOf);
    return offset;
  }

  #knownAsOf(partition: number): number {
    return this.#asOf.get(partition) ?? 0;
  }

  /** Looks for partitions that were added, now and then. They are read from where the group is, or their beginning. */
  #look(): void {
    if (this.settings.partitions || steadyMs() - this.#lookedMs < REFRESH_MS) return;
    this.#lookedMs = steadyMs();
    void this.session.call("getMetadata", { topics: [this.topic] }, this.#asking).then(
      async (found) => {
        this.session.routes.update(found, [this.topic]);
        const topic = this.session.routes.topics.get(this.topic);
        if (topic?.topicId !== this.#topicId || this.#isClosed) return;
        const known = new Set(this.#fetcher.partitions);
        for (const { number: partition } of topic.partitions) {
          if (known.has(partition)) continue;
          const place = { topic: this.topic, partition, topicId: this.#topicId };
          const committed = this.#group ? await this.#lookUp(place) : 0;
          if (!this.#isClosed) this.#fetcher.add(partition, Math.max(committed, 0), topic.topicId);
        }
        this.#fetcher.news.set();
      },
    ).catch(() => undefined);
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ConnectionClosedError("the reader is closed");
  }
}
