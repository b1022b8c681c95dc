/**
 * Transactions: records of several topics that become visible together, or not at all.
 *
 * Records are staged at the leaders of their partitions; then one decision of the cluster applies to all of them. A
 * failure before the decision aborts the transaction. If this process dies before the decision, the cluster aborts it: at
 * once when it has made the id itself and no other process can know it, else when its time limit is over.
 *
 * What was sent once never changes: a record or an ack that is added while a stage is in flight, or after its answer was
 * lost, begins another part.
 */

import { randomBytes } from "node:crypto";

import { BatchWriter } from "./codec/batch-writer.js";
import type { Reply } from "./codec/operations.js";
import { MIB, REQUEST_RESULTS_BYTES_MAX, REQUEST_RESULTS_MAX, RESULT_BYTES_MAX, type WireRecord } from "./codec/record.js";
import { leaseColumns } from "./codec/values.js";
import type { Topic } from "./core/routes.js";
import type { Session } from "./core/session.js";
import { type Limits, unlessAborted } from "./core/time.js";
import {
  FlotillaError, ForgottenError, InvalidArgumentError, NotFoundError, OutcomeUnknownError, TransactionEndedError,
  UnavailableError,
} from "./errors.js";
import { atLeast } from "./filter.js";
import { type Bytes, makeRecord, type RecordFields, type RecordInit, toBytes } from "./producer/fields.js";
import { newProducerId } from "./producer/lane.js";
import type { Receipt } from "./producer/pending-batch.js";
import { partitionOf, recordBytes } from "./producer/record-buffer.js";
import { type Lease, leaseExpired } from "./queue/leases.js";
import type { QueueMessage } from "./queue/message.js";

/** A batch is full at either of these; staging begins when so much is buffered. */
const BATCH_BYTES = MIB;
const BATCH_RECORDS = 10_000;
const BUFFER_BYTES = 4 * MIB;
/** How long one request for the outcome waits at the broker. */
const OUTCOME_WAIT_MS = 5_000;
/** Only a decision that was made before is wanted. */
const ALREADY_DECIDED = 1;

type Asking = Limits & { timeoutMs: number };

/** A partition of a topic. */
export interface Participant {
  topic: string;
  partition: number;
}

/** Records for one partition that share priority and deliver-at, numbered under the transaction's producer id. */
class PendingBatch {
  readonly writer = new BatchWriter();
  sizeBytes = 0;
  /** A broker may have staged it. */
  isSent = false;
  isStaged = false;
  baseOffset = -1;

  constructor(readonly place: Participant, readonly sequence: number, readonly kind: string) {}

  takes(kind: string, sizeBytes: number): boolean {
    const isFull = this.writer.count >= BATCH_RECORDS || this.sizeBytes + sizeBytes > BATCH_BYTES;
    return !this.isSent && !isFull && this.kind === kind;
  }

  seal(producerId: bigint): Buffer {
    this.isSent = true;
    return this.writer.seal("none", { producerId, epoch: 0, sequence: this.sequence });
  }
}

/** Messages of one queue group in one partition that the transaction acknowledges with one request. */
class PendingAcks {
  /** They live as long, so that their leases are renewed. */
  readonly messages = new Map<Lease, QueueMessage[]>();
  readonly results: { offset: number; payload: Uint8Array; isKept: boolean }[] = [];
  #resultsBytes = 0;
  /** A broker may have staged them. */
  isSent = false;

  constructor(readonly place: Participant, readonly group: string, readonly topicId: number) {}

  takes({ topic, partition, group, topicId }: Lease, result: Uint8Array | undefined): boolean {
    const isSame = this.place.topic === topic && this.place.partition === partition;
    return !this.isSent && isSame && this.group === group && this.topicId === topicId && this.#hasRoom(result);
  }

  #hasRoom(result: Uint8Array | undefined): boolean {
    if (!result) return true;
    return this.results.length < REQUEST_RESULTS_MAX && this.#resultsBytes + result.length <= REQUEST_RESULTS_BYTES_MAX;
  }

  has(lease: Lease, offset: number): boolean {
    return this.messages.get(lease)?.some((message) => message.offset === offset) ?? false;
  }

  add(message: QueueMessage, result: Uint8Array | undefined): void {
    const { lease, offset } = message;
    const known = this.messages.get(lease);
    if (known) known.push(message);
    else this.messages.set(lease, [message]);
    if (!result) return;
    this.results.push({ offset, payload: result, isKept: true });
    this.#resultsBytes += result.length;
  }

  seal(): ReturnType<typeof leaseColumns> {
    this.isSent = true;
    return leaseColumns([...this.messages].flatMap(([lease, messages]) => lease.runs(offsetsOf(messages))));
  }
}

/** Made by `Client.transaction`: `commit` it or `abort` it. Left undecided by `await using`, it is aborted. */
export class Transaction {
  /** The id under which any process may stage more records, commit, or abort. */
  readonly transactionId: string;
  readonly #session: Session;
  readonly #asking: Asking;
  readonly #isShared: boolean;
  readonly #producerId = newProducerId();
  readonly #batches: PendingBatch[] = [];
  // The batch of each record and its position there, in the order of adding.
  readonly #places: [PendingBatch, number][] = [];
  readonly #last = new Map<string, { batch: PendingBatch; count: number }>();
  readonly #participants = new Map<string, Participant>();
  readonly #topicIds = new Map<string, number>();
  // Of the topics of acknowledged messages.
  readonly #ackTopicIds = new Map<string, number>();
  // Those that are not staged yet.
  #acks: PendingAcks[] = [];
  // Records that wait for the description of their topic.
  readonly #adding = new Set<Promise<void>>();
  // The last flush: one runs at a time, and the next one stages what was added since.
  #flushing: Promise<unknown> = Promise.resolve();
  // The partition of records without a key.
  readonly #unkeyed = Math.floor(Math.random() * 2 ** 31);
  #bufferedBytes = 0;
  // When the first record was staged, by the cluster's clock; 0: none is staged.
  #begunMs = 0;
  // A commit was asked for: nothing more is added.
  #isComplete = false;
  #isOver = false;
  #isRepeated = false;

  /** @internal */
  constructor(session: Session, transactionId: string | undefined, asking: Asking, private readonly transactionTimeoutMs: number) {
    this.#session = session;
    this.#asking = asking;
    this.#isShared = transactionId !== undefined;
    this.transactionId = transactionId ?? randomBytes(16).toString("hex");
  }

  /** Every partition that this process has added records to, or acknowledges messages of. */
  get partitions(): Participant[] {
    return [...this.#participants.values()];
  }

  /**
   * The receipts of the records, in the order of adding. Throws TransactionEndedError before a commit. None, if the
   * application had committed this version before: then nothing was stored now.
   */
  get receipts(): Receipt[] {
    if (this.#isRepeated) return [];
    return this.#places.map(([batch, at]) => {
      if (batch.baseOffset < 0) throw new TransactionEndedError("the transaction was not committed here, so its records have no offsets");
      const { topic, partition } = batch.place;
      return { topic, partition, topicId: this.#topicIds.get(topic) ?? 0, offset: batch.baseOffset + at, duplicate: false };
    });
  }

  /** Adds one record. It may stay in this process until the commit, and is visible to no reader before. */
  async produce(topic: string, payload: Bytes, fields: RecordFields & Limits = {}): Promise<void> {
    const asking = this.#askingFor(fields);
    await this.#add(topic, [payload], fields, asking);
    if (this.#bufferedBytes >= BUFFER_BYTES) await this.#flush(asking);
  }

  /** Adds many records, and resolves when the cluster has staged them: from then on any process may commit. */
  async stage(topic: string, payloads: Iterable<Bytes | RecordInit>, fields: RecordFields & Limits = {}): Promise<void> {
    const asking = this.#askingFor(fields);
    await this.#add(topic, payloads, fields, asking);
    await this.#flush(asking);
  }

  /**
   * Acknowledges messages of queue groups with this transaction: settled when it commits, released if not. Throws
   * LeaseExpiredError for a message whose lease is over, as the commit does if that shows later.
   */
  ack(messages: QueueMessage | Iterable<QueueMessage>, { result }: { result?: Bytes } = {}): void {
    this.#checkIncomplete();
    const given = Symbol.iterator in messages ? [...messages] : [messages];
    const payload = result === undefined ? undefined : toBytes(result);
    if (payload && given.length !== 1) throw new InvalidArgumentError("a result is of one message");
    if (payload && payload.length > RESULT_BYTES_MAX) throw new InvalidArgumentError(`a result has at most ${RESULT_BYTES_MAX} bytes`);
    for (const message of given) {
      const { lease, offset, topic, partition } = message;
      if (message.isSettled) throw leaseExpired(lease, [offset]);
      if (this.#acks.some((acks) => acks.has(lease, offset))) continue;
      const place = { topic, partition };
      let acks = this.#acks.find((each) => each.takes(lease, payload));
      if (!acks) this.#acks.push((acks = new PendingAcks(place, lease.group, lease.topicId)));
      acks.add(message, payload);
      if (!this.#ackTopicIds.has(topic)) this.#ackTopicIds.set(topic, lease.topicId);
      this.#join(place);
    }
  }

  /**
   * Makes everything visible in all partitions, and resolves when it is: also what earlier calls are still adding. With an
   * application id and a version: only once, however often that version is committed. A commit whose signal is aborted
   * aborts the transaction in the background; if it was decided already, that stands.
   */
  async commit({ applicationId = "", version = 0, ...limits }: { applicationId?: string; version?: number } & Limits = {}): Promise<void> {
    this.#checkOpen();
    this.#isComplete = true;
    const asking = this.#askingFor(limits);
    await this.#stageRest(asking);
    const asked = { transactionId: this.transactionId, applicationId, version, partitions: this.partitions };
    try {
      const topicIds = asked.partitions.map(({ topic }) => this.#topicIds.get(topic) ?? this.#ackTopicIds.get(topic) ?? 0);
      const committed = await commitTransaction(this.#session, asked, asking, { begunMs: this.#begunMs, topicIds });
      this.#isOver = true;
      this.#isRepeated = committed.isRepeated;
      for (const batch of this.#batches) {
        const shown = committed.batches.get(nameOf(batch.place)) ?? [];
        const own = shown.find((each) => each.producerId === this.#producerId && each.sequence === batch.sequence);
        if (own) batch.baseOffset = own.baseOffset;
      }
    } catch (error) {
      // A commit of unknown outcome may be repeated; by then the outcome is known.
      if (!(error instanceof OutcomeUnknownError)) await this.#abortQuietly(asking);
      throw error;
    }
  }

  /** Drops everything. Rejects with TransactionEndedError when it was committed. */
  async abort(limits: Limits = {}): Promise<void> {
    await abortTransaction(this.#session, this.transactionId, this.partitions, this.#askingFor(limits), this.#begunMs);
    this.#isOver = true;
  }

  /** Aborts it, unless it was decided: JavaScript does not say whether a block has failed. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOver) await this.#abortQuietly(this.#asking);
  }

  // Inside.

  /** The limits of one call: its own before those of the transaction. */
  #askingFor({ timeoutMs, signal }: Limits): Asking {
    return { timeoutMs: atLeast(1, "timeoutMs", timeoutMs ?? this.#asking.timeoutMs), signal: signal ?? this.#asking.signal };
  }

  #checkOpen(): void {
    if (this.#isOver) throw new TransactionEndedError(`transaction ${this.transactionId} is over`);
  }

  #checkIncomplete(): void {
    this.#checkOpen();
    if (this.#isComplete) throw new TransactionEndedError(`transaction ${this.transactionId} is being committed`);
  }

  #join(place: Participant): void {
    this.#participants.set(nameOf(place), place);
  }

  async #add(topic: string, payloads: Iterable<Bytes | RecordInit>, fields: RecordFields, asking: Asking): Promise<void> {
    this.#checkIncomplete();
    const adding = this.#addFound(topic, payloads, fields, asking);
    this.#adding.add(adding);
    try {
      await adding;
    } finally {
      this.#adding.delete(adding);
    }
  }

  async #addFound(topic: string, payloads: Iterable<Bytes | RecordInit>, fields: RecordFields, asking: Asking): Promise<void> {
    const given = [...payloads].map((each): [Bytes, RecordFields] =>
      typeof each === "object" && !(each instanceof Uint8Array) ? [each.payload, each] : [each, fields],
    );
    const found = await this.#session.topic(topic, asking, true);
    // Delays count by the time of a broker, which the broker that described the topic has sent.
    const records = given.map(([payload, own]): [WireRecord, RecordFields] => [
      makeRecord(payload, own, this.#session.clockAheadMs), own,
    ]);
    if (records.some(([record]) => record.idempotencyKey?.length)) {
      throw new InvalidArgumentError("records of a transaction have no idempotency keys: it commits once as a whole");
    }
    this.#checkOpen();
    if (!this.#topicIds.has(topic)) this.#topicIds.set(topic, found.topicId);
    for (const [record, own] of records) {
      this.#put({ topic, partition: this.#choose(record, own.partition, found) }, record);
    }
  }

  #choose(record: WireRecord, chosen: number | undefined, topic: Topic): number {
    const count = topic.partitions.length;
    if (chosen === undefined) return record.key ? partitionOf(record.key, topic.keyPartitions || count) : this.#unkeyed % count;
    if (!(chosen >= 0 && chosen < count)) throw new InvalidArgumentError(`there is no partition ${chosen}, only ${count} of them`);
    return chosen;
  }

  #put(place: Participant, record: WireRecord): void {
    const name = nameOf(place);
    const sizeBytes = recordBytes(record);
    const kind = `${record.priority}/${record.deliverAtMs}`;
    const last = this.#last.get(name);
    const count = last?.count ?? 0;
    let batch = last?.batch;
    if (!batch?.takes(kind, sizeBytes)) this.#batches.push((batch = new PendingBatch(place, count, kind)));
    this.#places.push([batch, batch.writer.count]);
    batch.writer.add(record);
    batch.sizeBytes += sizeBytes;
    this.#bufferedBytes += sizeBytes;
    this.#last.set(name, { batch, count: count + 1 });
    this.#join(place);
  }

  #flush(asking: Asking): Promise<void> {
    const flushed = this.#flushing.then(() => this.#stageAll(asking));
    this.#flushing = flushed.catch(() => undefined);
    return flushed;
  }

  /** Stages partitions in parallel, and the parts of one partition one after the other, to keep their order. */
  async #stageAll(asking: Asking): Promise<void> {
    const rows = new Map<string, (PendingBatch | PendingAcks)[]>();
    const unstaged = this.#batches.filter((batch) => !batch.isStaged);
    for (const part of [...this.#acks, ...unstaged]) {
      const name = nameOf(part.place);
      rows.set(name, [...(rows.get(name) ?? []), part]);
    }
    const outcomes = await Promise.allSettled([...rows.values()].map((row) => this.#stageRow(row, asking)));
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }

  async #stageRow(row: readonly (PendingBatch | PendingAcks)[], asking: Asking): Promise<void> {
    for (const part of row) {
      const own = {
        ...part.place, transactionId: this.transactionId, timeoutMs: this.transactionTimeoutMs,
        // Another process may commit a transaction whose id it was given.
        member: this.#isShared ? "" : this.#session.member,
      };
      let staged: Reply<"stage">;
      if (part instanceof PendingBatch) {
        const attachment = part.seal(this.#producerId);
        const fields = { ...own, topicId: this.#topicIds.get(part.place.topic)! };
        staged = await this.#session.call("stage", fields, { ...asking, attachment });
        part.isStaged = true;
        this.#bufferedBytes -= part.sizeBytes;
      } else {
        const { group, topicId, results } = part;
        const fields = { ...own, group, topicId, leases: part.seal(), results };
        staged = await this.#session.call("stageSettlement", fields, asking);
        this.#acks = this.#acks.filter((acks) => acks !== part);
        for (const [lease, messages] of part.messages) messages[0]!.owner.takenOver(lease, offsetsOf(messages));
      }
      this.#begunMs = Math.min(this.#begunMs || staged.begunMs, staged.begunMs);
    }
  }

  /** Stages what a commit needs. Any failure ends the transaction: nothing was decided yet. */
  async #stageRest(asking: Asking): Promise<void> {
    try {
      await unlessAborted(Promise.all(this.#adding), asking.signal);
      await this.#flush(asking);
    } catch (error) {
      await this.#abortQuietly(asking);
      if (!(error instanceof OutcomeUnknownError)) throw error;
      throw new UnavailableError(
        `transaction ${this.transactionId} is aborted: a broker did not say whether it has staged a part of it`,
        { cause: error },
      );
    }
  }

  /**
   * A partition that cannot be reached now drops its part later. Where the signal is aborted, the caller waits no more:
   * the abort goes on in the background, without that signal.
   */
  async #abortQuietly({ timeoutMs, signal }: Asking): Promise<void> {
    this.#isOver = true;
    if (!this.#participants.size || this.#session.isClosed) return;
    const aborted = abortTransaction(this.#session, this.transactionId, this.partitions, { timeoutMs }, this.#begunMs).catch(() => undefined);
    if (!signal?.aborted) await aborted;
  }
}

/** A batch that a commit has made visible. */
export interface ShownBatch {
  producerId: bigint;
  sequence: number;
  baseOffset: number;
}

export interface Committed {
  /** Nothing was committed now: the application has committed this version, or a newer one, before. */
  isRepeated: boolean;
  /** The batches that are visible now, by `topic/partition`, in the order of offsets. */
  batches: Map<string, ShownBatch[]>;
}

export interface CommitRequest {
  transactionId: string;
  applicationId?: string;
  version?: number;
  partitions: readonly Participant[];
}

/** When the first part of a transaction was staged, and the topic of each of its partitions; 0: any. */
interface Begun {
  begunMs: number;
  topicIds: number[];
}

/** Decides, then waits until the part of every partition is visible. Partitions are asked for what is not known. */
export async function commitTransaction(session: Session, request: CommitRequest, asking: Asking, known?: Begun): Promise<Committed> {
  const { transactionId, applicationId, version } = request;
  const places = [...new Map(request.partitions.map((place) => [nameOf(place), place])).values()];
  const { begunMs, topicIds } = known?.begunMs ? known : await begun(session, transactionId, places, asking);
  const fields = { transactionId, applicationId, version, partitions: places.map(toWire), begunMs, topicIds };
  const { isRepeated } = await session.call("commitTransaction", fields, asking);
  const batches = new Map<string, ShownBatch[]>();
  if (isRepeated) return { isRepeated, batches };
  try {
    await Promise.all(
      places.map(async (place) => {
        const shown = await outcome(session, transactionId, place, asking);
        const rows = shown.baseOffsets.map((baseOffset, at) => ({
          baseOffset, producerId: shown.producerIds[at]!, sequence: shown.producerSequences[at]!,
        }));
        batches.set(nameOf(place), rows.sort((one, other) => one.baseOffset - other.baseOffset));
      }),
    );
  } catch (error) {
    if (!(error instanceof FlotillaError) || error instanceof ForgottenError) throw error;
    throw new OutcomeUnknownError(
      `transaction ${transactionId} is committed, but not all partitions have said that they show it`, { cause: error },
    );
  }
  return { isRepeated, batches };
}

export async function abortTransaction(
  session: Session,
  transactionId: string,
  partitions: readonly Participant[],
  asking: Asking,
  begunMs = 0,
): Promise<void> {
  await session.call("abortTransaction", { transactionId, partitions: partitions.map(toWire), begunMs }, asking);
}

/** When the first of these was staged, and in which topics; 0: there are none. */
async function begun(session: Session, transactionId: string, places: readonly Participant[], asking: Asking): Promise<Begun> {
  const found = await Promise.all(
    places.map(async (place) => {
      try {
        return await session.call("transactionOutcome", { ...place, transactionId }, asking);
      } catch (error) {
        // Nothing was staged there, or so long ago that the partition has forgotten it.
        if (error instanceof NotFoundError) return { begunMs: 0, topicId: 0 };
        throw error;
      }
    }),
  );
  const times = found.map((each) => each.begunMs || ALREADY_DECIDED);
  return { begunMs: times.length ? Math.min(...times) : 0, topicIds: found.map((each) => each.topicId) };
}

/** The visible part of a partition. Throws ForgottenError when a committed transaction has none there. */
async function outcome(session: Session, transactionId: string, place: Participant, asking: Asking): Promise<Reply<"transactionOutcome">> {
  const missing = `transaction ${transactionId} is committed, but partition ${place.partition} of ${place.topic}`;
  const waitMs = Math.floor(Math.min(OUTCOME_WAIT_MS, asking.timeoutMs));
  try {
    const shown = await session.call("transactionOutcome", { ...place, transactionId, waitMs }, asking);
    if (shown.isShown) return shown;
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    throw new ForgottenError(`${missing} remembers nothing of it: ${error.message}`);
  }
  throw new ForgottenError(`${missing} has dropped its part`);
}

function offsetsOf(messages: readonly QueueMessage[]): number[] {
  return messages.map((message) => message.offset);
}

function nameOf(place: Participant): string {
  return `${place.topic}/${place.partition}`;
}

function toWire(place: Participant): { topic: string; number: number } {
  return { topic: place.topic, number: place.partition };
}
