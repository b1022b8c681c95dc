/** The client of a cluster: topics, producers, consumers, transactions, and administration. */

import { readFileSync } from "node:fs";

import { Admin, type Metadata } from "./admin/admin.js";
import { DeadLetters } from "./admin/dead-letters.js";
import { type GroupInfo, type GroupKind, Groups } from "./admin/groups.js";
import { Schedules } from "./admin/schedules.js";
import type { Reply } from "./codec/operations.js";
import { type Credentials, type CredentialsProvider, readSecret, type Tls } from "./core/credentials.js";
import { parseAddress } from "./core/link.js";
import type { Topic } from "./core/routes.js";
import { noTopic } from "./core/leader-search.js";
import { Session } from "./core/session.js";
import { Closing, type Limits, sleep, TimeLimit } from "./core/time.js";
import {
  AlreadyExistsError, ConnectionClosedError, DeadlineError, InvalidArgumentError, NotFoundError, OffsetOutOfRangeError,
  OutcomeUnknownError, TopicReplacedError, UnavailableError,
} from "./errors.js";
import { atLeast, LATEST, type StartAt } from "./filter.js";
import type { Message } from "./message.js";
import type { Bytes, RecordFields, RecordInit } from "./producer/fields.js";
import { producerOptions, type ProducerSettings } from "./producer/options.js";
import type { Receipt } from "./producer/pending-batch.js";
import { Producer } from "./producer/producer.js";
import type { QueueMessage } from "./queue/message.js";
import { queueOptions, type QueueSettings } from "./queue/options.js";
import { Queue } from "./queue/queue.js";
import { ResultWaits } from "./queue/results.js";
import { findOffset, readOffset } from "./reader/positions.js";
import { Reader, type ReaderSettings } from "./reader/reader.js";
import { type GroupSettings, readSettings, type TopicSettings } from "./settings.js";
import { Stream, type StreamSettings } from "./stream/stream.js";
import { abortTransaction, type CommitRequest, type Committed, commitTransaction, type Participant, Transaction } from "./transaction.js";
import { type Handler, Worker, type WorkerSettings } from "./worker.js";

export interface ClientOptions {
  /** Of each call that has none of its own; 30 s. */
  timeoutMs?: number;
  /** Shown to operators of the brokers. */
  name?: string;
  /** Encrypts the connections. A certificate may say who the client is. */
  tls?: Tls;
  /** Who the client is: a user with the file that has its password in the first line, */
  user?: string;
  passwordFile?: string;
  /** a file with a token, */
  tokenFile?: string;
  /** or credentials, or a function that returns them for each connection. */
  credentials?: Credentials | CredentialsProvider;
}

/** Everything of a topic, as brokers describe it. */
export type TopicInfo = Topic;

const TIMEOUT_MS_DEFAULT = 30_000;
/** The group of workers and of requests that name none. */
const WORKER_GROUP = "workers";
/** Before metadata are asked for again that no quorum confirmed. */
const CONFIRM_AGAIN_MS = 100;

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };

/** It connects with the first call. Close it, or declare it with `await using`. */
export class Client {
  /** Recurring messages: cron expressions and intervals. */
  readonly schedules: Schedules;
  /** Administration of the cluster: nodes, replicas, leaders, users. */
  readonly admin: Admin;
  readonly #session: Session;
  readonly #timeoutMs: number;
  readonly #producers = new Set<Producer>();
  // For `produce`, by topic.
  readonly #ownProducers = new Map<string, Producer>();
  readonly #consumers = new Set<Reader | Queue | Stream>();
  readonly #workers = new Set<Worker>();
  readonly #results: ResultWaits;
  readonly #closing = new Closing();

  /** `addresses`: host:port of one or more brokers, also separated by commas. Throws InvalidArgumentError. */
  constructor(addresses: string | readonly string[], options: ClientOptions = {}) {
    const found = (typeof addresses === "string" ? addresses.split(",") : [...addresses]).map((each) => each.trim());
    if (!found.length) throw new InvalidArgumentError("a client needs the address of a broker");
    for (const address of found) parseAddress(address);
    this.#timeoutMs = atLeast(1, "timeoutMs", options.timeoutMs ?? TIMEOUT_MS_DEFAULT);
    const name = `flotilla-typescript/${version} ${options.name ?? ""}`.trim();
    this.#session = new Session(found, { name, tls: options.tls, credentials: readCredentials(options) });
    this.#results = new ResultWaits(this.#session);
    this.schedules = new Schedules(() => this.#open(), this.#timeoutMs);
    this.admin = new Admin(() => this.#open(), this.#timeoutMs);
  }

  // Topics.

  /**
   * Creates a topic; 0 partitions or replicas: the default of the cluster. Rejects with AlreadyExistsError, unless
   * `ifNotExists`: then a topic that exists is returned as it is.
   */
  async createTopic(
    topic: string,
    options: { partitions?: number; replicationFactor?: number; settings?: TopicSettings; ifNotExists?: boolean } & Limits = {},
  ): Promise<TopicInfo> {
    const { partitions, replicationFactor, settings = {} } = options;
    const fields = { topic, partitions, replicationFactor, settings: readSettings(settings) };
    try {
      return this.#learn((await this.#open().call("createTopic", fields, this.#asking(options))).topic!);
    } catch (error) {
      if (!(error instanceof AlreadyExistsError) || !options.ifNotExists) throw error;
    }
    return this.describeTopic(topic, options);
  }

  /** Changes settings of a topic, or adds partitions (0: no change). Rejects with NotFoundError. */
  async alterTopic(
    topic: string,
    options: { partitions?: number; replicationFactor?: number; settings?: TopicSettings } & Limits = {},
  ): Promise<TopicInfo> {
    const { partitions, replicationFactor, settings = {} } = options;
    const fields = { topic, partitions, replicationFactor, settings: readSettings(settings) };
    return this.#learn((await this.#open().call("alterTopic", fields, this.#asking(options))).topic!);
  }

  /** Deletes a topic with all its messages, and returns it as it was. Rejects with NotFoundError. */
  async deleteTopic(topic: string, limits: Limits = {}): Promise<TopicInfo> {
    const reply = await this.#open().call("deleteTopic", { topic }, this.#asking(limits));
    this.#session.routes.forget(topic);
    return reply.topic!;
  }

  #learn(topic: TopicInfo): TopicInfo {
    this.#session.routes.learn(topic);
    return topic;
  }

  /** All topics. Rejects with UnavailableError if no quorum of the metadata confirms in time that none is missing. */
  async topics(limits: Limits = {}): Promise<TopicInfo[]> {
    return (await this.#confirmedMetadata([], limits)).topics;
  }

  /** One topic. Rejects with NotFoundError, and with UnavailableError as `topics`. */
  async describeTopic(topic: string, limits: Limits = {}): Promise<TopicInfo> {
    const [found] = (await this.#confirmedMetadata([topic], limits)).topics;
    if (!found) throw noTopic(topic);
    return found;
  }

  async #confirmedMetadata(topics: string[], limits: Limits): Promise<Metadata> {
    const limit = new TimeLimit(limits.timeoutMs ?? this.#timeoutMs);
    let wasAnswered = false;
    while (limit.leftMs) {
      try {
        const found = await this.admin.metadata(topics, { signal: limits.signal, timeoutMs: limit.leftMs });
        if (!found.isStale) return found;
      } catch (error) {
        if (!(error instanceof DeadlineError) || !wasAnswered) throw error;
      }
      wasAnswered = true;
      // A broker waits for a quorum before it answers, unless it is not part of a cluster yet.
      await sleep(Math.min(CONFIRM_AGAIN_MS, limit.leftMs), limits.signal);
    }
    throw new UnavailableError("no quorum of the metadata confirms what brokers know of topics");
  }

  /**
   * Removes every message that the topic holds now, and returns by partition where its log begins then. Topic, groups and
   * settings stay. Nothing is spared. Messages that are produced meanwhile stay.
   */
  async purge(topic: string, limits: Limits = {}): Promise<Map<number, number>> {
    const found = await this.describeTopic(topic, limits);
    return this.#trim(found, await this.#ends(found, found.partitions.map((part) => part.number), limits), limits);
  }

  /**
   * Removes the messages below an offset of each given partition. Rejects with NotFoundError for a partition that does
   * not exist and with OffsetOutOfRangeError for an offset past its end; then nothing is removed.
   */
  async trim(topic: string, offsets: ReadonlyMap<number, number>, limits: Limits = {}): Promise<Map<number, number>> {
    const found = await this.describeTopic(topic, limits);
    for (const number of offsets.keys()) {
      if (!found.partitions.some((part) => part.number === number)) {
        throw new NotFoundError(`topic ${topic} has no partition ${number}, only ${found.partitions.length} of them`);
      }
    }
    const ends = await this.#ends(found, [...offsets.keys()], limits);
    for (const [number, offset] of offsets) {
      if (!Number.isInteger(offset) || offset < 0 || offset > ends.get(number)!) {
        throw new OffsetOutOfRangeError(`partition ${number}: offset ${offset} is not between 0 and ${ends.get(number)}`);
      }
    }
    return this.#trim(found, offsets, limits);
  }

  async #ends(topic: TopicInfo, partitions: readonly number[], limits: Limits): Promise<Map<number, number>> {
    return collected(partitions, async (partition) => {
      const fields = { topic: topic.name, partition, timestampMs: LATEST };
      return (await this.#open().call("listOffsets", fields, this.#asking(limits))).offset;
    });
  }

  async #trim(topic: TopicInfo, offsets: ReadonlyMap<number, number>, limits: Limits): Promise<Map<number, number>> {
    return collected([...offsets.keys()], async (partition) => {
      const fields = { topic: topic.name, partition, offset: offsets.get(partition)!, topicId: topic.topicId };
      return (await this.#open().call("trimPartition", fields, this.#asking(limits))).logStart;
    });
  }

  // Producing.

  /**
   * Stores one record, and returns its receipt when a majority of replicas has it on disk. Retries of the client store it
   * once. A record with a key goes to the partition of that key, unless `partition` is given.
   */
  async produce(topic: string, payload: Bytes, fields: RecordFields & Limits = {}): Promise<Receipt> {
    const producer = this.#ownProducer(topic);
    try {
      return await producer.produce(payload, fields);
    } catch (error) {
      // Certainly not stored, and the producer knows the new topic by now.
      if (error instanceof TopicReplacedError) return producer.produce(payload, fields);
      throw error;
    }
  }

  /**
   * Stores many records in few batches, and returns one receipt for each. `fields` hold for every payload; a record
   * among them has its own. Rejects with the error of the first one that fails; others may be stored.
   */
  async produceMany(topic: string, payloads: Iterable<Bytes | RecordInit>, fields: RecordFields & Limits = {}): Promise<Receipt[]> {
    return this.#ownProducer(topic).produceMany(payloads, fields);
  }

  /** A producer that sends in the background: `send` does not wait for the answer. */
  producer(topic: string, settings: ProducerSettings = {}): Producer {
    const producer = new Producer(this.#open(), topic, producerOptions(settings, this.#timeoutMs), (each) => this.#producers.delete(each));
    this.#producers.add(producer);
    return producer;
  }

  /**
   * Stores one record, waits until a consumer of the group has acknowledged it, and returns the ack's result. Rejects
   * with MessageFailedError when the message failed for the last time, expired or was cancelled, and with
   * OutcomeUnknownError when it is stored and has not ended in time.
   */
  async request(topic: string, payload: Bytes, { group = WORKER_GROUP, ...fields }: { group?: string } & RecordFields & Limits = {}): Promise<Buffer> {
    const limit = new TimeLimit(fields.timeoutMs ?? this.#timeoutMs);
    const receipt = await this.produce(topic, payload, fields);
    try {
      return await this.result(receipt, { group, signal: fields.signal, timeoutMs: limit.leftMs || 1 });
    } catch (error) {
      if (!(error instanceof DeadlineError)) throw error;
      throw new OutcomeUnknownError(`it is stored, and may or may not be done; ${error.message}`, { cause: error });
    }
  }

  /** Waits until the message of a receipt has ended in the group, and returns the result of its ack. */
  async result(receipt: Receipt, { group = WORKER_GROUP, ...limits }: { group?: string } & Limits = {}): Promise<Buffer> {
    this.#open();
    return this.#results.wait(receipt, group, limits.timeoutMs ?? this.#timeoutMs, limits.signal);
  }

  // Transactions.

  /**
   * A transaction: records of several topics that become visible together, or not at all. One that is not decided within
   * `transactionTimeoutMs` of its first stage is aborted (by default as its topics say, 1 minute); one without a
   * `transactionId` as soon as this process loses its connection.
   */
  transaction({ transactionId, transactionTimeoutMs = 0, ...limits }: { transactionId?: string; transactionTimeoutMs?: number } & Limits = {}): Transaction {
    return new Transaction(this.#open(), transactionId, this.#asking(limits), transactionTimeoutMs);
  }

  /** Commits the records staged under this id in these partitions, and resolves when they are visible there. */
  commitTransaction(request: CommitRequest, limits: Limits = {}): Promise<Committed> {
    return commitTransaction(this.#open(), request, this.#asking(limits));
  }

  /** Drops the records staged under this id. Rejects with TransactionEndedError when it was committed. */
  abortTransaction(transactionId: string, partitions: readonly Participant[] = [], limits: Limits = {}): Promise<void> {
    return abortTransaction(this.#open(), transactionId, partitions, this.#asking(limits));
  }

  // Consuming.

  /**
   * A member of a queue group: its members share the messages of the topic. Each message is leased to one member until it
   * is settled, and delivered again if it is not. Other groups get every message, too.
   */
  queue(topic: string, group: string, settings: QueueSettings = {}): Queue {
    const follow = (message: QueueMessage, ...next: [string, Bytes, RecordFields & Limits]): Promise<Receipt> => this.#follow(message, ...next);
    return this.#keep(new Queue(this.#open(), topic, group, queueOptions(settings, this.#timeoutMs), this.#forget, follow));
  }

  /** Runs a handler for the messages of a group, a bounded number at a time, until it is stopped. */
  worker(topic: string, group: string, handler: Handler, settings: WorkerSettings = {}): Worker {
    const concurrency = settings.concurrency ?? 16;
    const worker = new Worker(this.queue(topic, group, { prefetch: concurrency, ...settings }), handler, settings);
    this.#workers.add(worker);
    void worker.done.catch(() => undefined).finally(() => this.#workers.delete(worker));
    return worker;
  }

  /** A member of a stream group: its members share the partitions of the topic, and each is read in order. */
  stream(topic: string, group: string, settings: StreamSettings = {}): Stream {
    return this.#keep(new Stream(this.#open(), topic, group, settings, this.#timeoutMs, this.#forget));
  }

  /** A reader of a topic that keeps its own position: it shares messages with no other reader. */
  reader(topic: string, settings: ReaderSettings = {}): Reader {
    return this.#keep(new Reader(this.#open(), topic, settings, this.#timeoutMs, this.#forget));
  }

  /** The offset of a place in a partition, or of the first record at or after a time; -1: no record is that young. */
  findOffset(topic: string, partition: number, at: StartAt, limits: Limits = {}): Promise<number> {
    return findOffset(this.#open(), { topic, partition }, at, this.#asking(limits));
  }

  /** Commits an offset for a group, and returns its committed offset. It moves back only with `reset`. */
  async commitOffset(topic: string, group: string, partition: number, offset: number, { reset = false, ...limits }: { reset?: boolean } & Limits = {}): Promise<number> {
    const effect = reset ? "once" : "repeatable";
    const options = { ...this.#asking(limits), effect } as const;
    return (await this.#open().call("commitOffset", { topic, group, partition, offset, reset }, options)).offset;
  }

  /** The committed offset of a group; undefined: it never committed. */
  committedOffset(topic: string, group: string, partition: number, limits: Limits = {}): Promise<number | undefined> {
    return readOffset(this.#open(), group, { topic, partition }, this.#asking(limits));
  }

  // Groups and single messages.

  /** The groups of a topic by name, with their kind. */
  groups(topic: string, limits: Limits = {}): Promise<Map<string, GroupKind>> {
    return this.#groups(topic, limits).names();
  }

  /** Lag, leases, totals and members of a group. Rejects with NotFoundError. */
  describeGroup(topic: string, group: string, limits: Limits = {}): Promise<GroupInfo> {
    return this.#groups(topic, limits).describe(group);
  }

  /** Moves a group, and returns the old and new position by partition. Its leases end. With `dryRun` nothing changes. */
  resetGroup(
    topic: string,
    group: string,
    start: StartAt = "earliest",
    { partitions, dryRun = false, ...limits }: { partitions?: readonly number[]; dryRun?: boolean } & Limits = {},
  ): Promise<Map<number, Reply<"resetGroup">>> {
    return this.#groups(topic, limits).reset(group, start, partitions, dryRun);
  }

  /** Delivers nothing to the group until it is resumed; leases stay. Returns the group's settings. */
  pauseGroup(topic: string, group: string, limits: Limits = {}): Promise<Record<string, string>> {
    return this.alterGroup(topic, group, { paused: 1 }, limits);
  }

  resumeGroup(topic: string, group: string, limits: Limits = {}): Promise<Record<string, string>> {
    return this.alterGroup(topic, group, { paused: 0 }, limits);
  }

  /** Changes settings of one group; "" returns to the topic's value. Returns all settings of the group. */
  alterGroup(topic: string, group: string, settings: GroupSettings, limits: Limits = {}): Promise<Record<string, string>> {
    return this.#groups(topic, limits).alter(group, readSettings(settings));
  }

  /** Deletes a group with its progress and settings. Rejects with GroupInUseError while it has live members. */
  deleteGroup(topic: string, group: string, { force = false, ...limits }: { force?: boolean } & Limits = {}): Promise<void> {
    return this.#groups(topic, limits).delete(group, force);
  }

  /** Cancels a message: no group gets it any more. Groups that settled it are unaffected. */
  cancel(
    topic: string,
    { partition, offset, idempotencyKey, ...limits }: { partition?: number; offset?: number; idempotencyKey?: Bytes } & Limits,
  ): Promise<{ partition: number; offset: number }[]> {
    return this.#groups(topic, limits).cancel({ partition, offset, idempotencyKey });
  }

  /** Messages from an offset on, or from the oldest on. Changes nothing for any group. */
  peek(
    topic: string,
    { partition = 0, offset, maxMessages = 10, ...limits }: { partition?: number; offset?: number; maxMessages?: number } & Limits = {},
  ): Promise<Message[]> {
    return this.#groups(topic, limits).peek(partition, offset, maxMessages);
  }

  /** The state of a message in a group, its cause, and what comes next; `history` adds every step in the log. */
  explain(topic: string, group: string, partition: number, offset: number, { history = true, ...limits }: { history?: boolean } & Limits = {}): Promise<Reply<"explainMessage">> {
    return this.#groups(topic, limits).explain(group, partition, offset, history);
  }

  /** The dead letters of a group of a topic: to be listed, sent again, or deleted. */
  deadLetters(topic: string, group: string, limits: Limits = {}): DeadLetters {
    return new DeadLetters(this, topic, group, limits);
  }

  #groups(topic: string, limits: Limits): Groups {
    return new Groups(this.#open(), topic, this.#asking(limits));
  }

  // Its own life.

  /** Stops workers, closes consumers, sends the records that producers hold, and closes every connection. */
  close(limits: Limits = {}): Promise<void> {
    return this.#closing.run(() => this.#close(limits));
  }

  async #close(limits: Limits): Promise<void> {
    try {
      await all([...this.#workers].map((worker) => worker.stop()));
      await all([...this.#consumers].map((each) => (each instanceof Reader ? each.close() : each.close(limits))));
      // Producers last: a handler that is being drained may still send something.
      await all([...this.#producers].map((producer) => producer.close(limits)));
    } finally {
      this.#session.close();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // Inside.

  #open(): Session {
    if (this.#closing.isBegun) throw new ConnectionClosedError("the client is closed");
    return this.#session;
  }

  #asking({ timeoutMs, signal }: Limits): Limits & { timeoutMs: number } {
    return { timeoutMs: atLeast(1, "timeoutMs", timeoutMs ?? this.#timeoutMs), signal };
  }

  #ownProducer(topic: string): Producer {
    this.#open();
    let producer = this.#ownProducers.get(topic);
    if (!producer) {
      producer = this.producer(topic, { lingerMs: 0 });
      this.#ownProducers.set(topic, producer);
    }
    return producer;
  }

  #keep<T extends Reader | Queue | Stream>(consumer: T): T {
    this.#consumers.add(consumer);
    return consumer;
  }

  readonly #forget = (consumer: Reader | Queue | Stream): void => {
    this.#consumers.delete(consumer);
  };

  async #follow(message: QueueMessage, topic: string, payload: Bytes, { timeoutMs, signal, ...fields }: RecordFields & Limits): Promise<Receipt> {
    await using transaction = this.transaction({ timeoutMs, signal });
    transaction.ack(message);
    await transaction.produce(topic, payload, fields);
    await transaction.commit();
    return transaction.receipts[0]!;
  }
}

/** Of the ways to say who a client is, the one that was chosen. Throws InvalidArgumentError for two at once. */
function readCredentials({ user, passwordFile, tokenFile, credentials }: ClientOptions): CredentialsProvider | undefined {
  const ways = [user !== undefined || passwordFile !== undefined, tokenFile !== undefined, credentials !== undefined];
  if (ways.filter((way) => way).length > 1) {
    throw new InvalidArgumentError("a client has a user and a password file, a token file, or credentials: one of them");
  }
  if ((user === undefined) !== (passwordFile === undefined)) {
    throw new InvalidArgumentError("a user needs a password file, and a password file a user");
  }
  if (user !== undefined) return () => ({ user, password: readSecret(passwordFile!) });
  if (tokenFile !== undefined) return () => ({ token: readSecret(tokenFile) });
  return typeof credentials === "object" ? () => credentials : credentials;
}

/** Waits for all, then throws the first error. */
async function all(work: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(work)) if (outcome.status === "rejected") throw outcome.reason;
}

async function collected(partitions: readonly number[], ask: (partition: number) => Promise<number>): Promise<Map<number, number>> {
  const found = await Promise.all(partitions.map(ask));
  return new Map(partitions.map((partition, at) => [partition, found[at]!]));
}

