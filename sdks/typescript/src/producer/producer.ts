/**
 * A producer: sends records in batches, many at a time, and returns a delivery for each.
 *
 * A batch leaves when it is full, or when its linger has passed and its lane has room. So an idle producer sends at once
 * and a busy one sends large batches by itself.
 */

import type { WireRecord } from "../codec/record.js";
import { CONTROLLER } from "../core/routes.js";
import type { Session } from "../core/session.js";
import { AtEndOfTurn, Closing, type Limits, News, sleep, steadyMs, TimeLimit } from "../core/time.js";
import { BufferFullError, ConnectionClosedError, DeadlineError, FlotillaError } from "../errors.js";
import { type Bytes, makeRecord, type RecordFields, type RecordInit } from "./fields.js";
import { newProducerId, PartitionLane } from "./lane.js";
import type { ProducerOptions } from "./options.js";
import { Delivery, type PendingBatch, type Receipt } from "./pending-batch.js";
import { RecordBuffer, recordBytes } from "./record-buffer.js";

/** The time for a description of the topic; after that, the next refused batch asks again. */
const REFRESH_MS_MAX = 10_000;
/** A loop that never waits yields after this many records: answers are read by the same thread. */
const TURN_RECORDS = 256;

/** Made by `Client.producer`. Close it, or declare it with `await using`. */
export class Producer {
  readonly #buffer: RecordBuffer;
  readonly #lanes = new Map<number, PartitionLane>();
  readonly #producerId = newProducerId();
  readonly #room = new News();
  #alarm: NodeJS.Timeout | undefined;
  readonly #pumping = new AtEndOfTurn(() => this.#pump());
  #isFlushing = false;
  #isRefreshing = false;
  readonly #closing = new Closing();
  #turn = 0;
  // The first batch that failed since the last flush.
  #failure: PendingBatch | undefined;

  /** @internal */
  constructor(
    private readonly session: Session,
    readonly topic: string,
    private readonly options: ProducerOptions,
    private readonly closed: (producer: Producer) => void,
  ) {
    this.#buffer = new RecordBuffer(topic, options);
  }

  /**
   * Sends one record without waiting for its answer: await `result()` of what this returns for the receipt.
   *
   * Waits only while the buffer is full. Rejects with BufferFullError when it stays full until the time limit, and with
   * InvalidArgumentError for a record that no broker would take.
   */
  send(payload: Bytes, fields?: RecordFields & { signal?: AbortSignal }): Promise<Delivery> {
    if (!fields && !this.#closing.isBegun) {
      const batch = this.#buffer.append(payload);
      if (batch) {
        const delivery = new Delivery(batch, batch.count - 1);
        if (++this.#turn % TURN_RECORDS) return Promise.resolve(delivery);
        return new Promise((resolve) => setImmediate(resolve, delivery));
      }
    }
    return this.#send(payload, fields ?? {}, this.options.timeoutMs, fields?.signal);
  }

  /** Stores one record, and returns its receipt when a majority of replicas has it on disk. */
  async produce(payload: Bytes, fields: RecordFields & Limits = {}): Promise<Receipt> {
    const delivery = await this.#send(payload, fields, fields.timeoutMs ?? this.options.timeoutMs, fields.signal);
    return delivery.result();
  }

  /**
   * Stores many records in few batches, and returns one receipt for each. Rejects with the error of the first one that
   * fails; others may be stored.
   */
  async produceMany(payloads: Iterable<Bytes | RecordInit>, fields: RecordFields & Limits = {}): Promise<Receipt[]> {
    const timeoutMs = fields.timeoutMs ?? this.options.timeoutMs;
    const sent: Delivery[] = [];
    for (const each of payloads) {
      const isRecord = typeof each === "object" && !(each instanceof Uint8Array);
      const own = isRecord ? each : fields;
      sent.push(await this.#send(isRecord ? each.payload : each, own, timeoutMs, fields.signal));
    }
    this.#flush();
    const receipts = await Promise.allSettled(sent.map((delivery) => delivery.result()));
    return receipts.map((each) => {
      if (each.status === "rejected") throw each.reason;
      return each.value;
    });
  }

  /**
   * Waits until everything that was sent has its answer. Rejects with the error of the first record that failed since
   * the last flush, unless the application has seen it already, and with DeadlineError after `timeoutMs`.
   */
  async flush(limits: Limits = {}): Promise<void> {
    this.#flush();
    const answered = Promise.all([...this.#buffer.unresolved].map((batch) => batch.done()));
    if (limits.timeoutMs === undefined && !limits.signal) await answered;
    else if (!(await Promise.race([answered, sleep(limits.timeoutMs ?? Infinity, limits.signal)]))) {
      throw new DeadlineError(`records have no answer after ${limits.timeoutMs} ms`);
    }
    const failure = this.#failure;
    this.#failure = undefined;
    if (!failure?.error || failure.isObserved) return;
    failure.isObserved = true;
    throw failure.error;
  }

  /** Flushes, and takes no more records. What has no answer by the time limit fails. */
  close(limits: Limits = {}): Promise<void> {
    return this.#closing.run(() => this.#close(limits));
  }

  async #close(limits: Limits): Promise<void> {
    this.#room.set();
    try {
      await this.flush(limits);
    } catch (error) {
      if (!(error instanceof DeadlineError)) throw error;
    } finally {
      this.#abandon(new ConnectionClosedError("the producer was closed before an answer came"));
      clearTimeout(this.#alarm);
      this.closed(this);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // Inside.

  async #send(payload: Bytes, fields: RecordFields, timeoutMs: number, signal?: AbortSignal): Promise<Delivery> {
    signal?.throwIfAborted();
    // A record that no broker would take is refused before one is asked.
    let record: WireRecord = makeRecord(payload, fields, this.session.clockAheadMs);
    if (!this.#buffer.partitions && !this.#closing.isBegun) {
      this.#buffer.adapt(await this.session.topic(this.topic, { timeoutMs, signal }, true));
      // Delays count by the time of a broker, which the broker that described the topic has sent.
      record = makeRecord(payload, fields, this.session.clockAheadMs);
    }
    const sizeBytes = recordBytes(record);
    const limit = new TimeLimit(timeoutMs);
    while (!this.#closing.isBegun && !this.#buffer.canTake(sizeBytes)) {
      if (!limit.leftMs) throw this.#bufferFull(timeoutMs);
      this.#room.clear();
      await this.#room.wait(limit.leftMs, signal);
    }
    if (this.#closing.isBegun) throw new ConnectionClosedError("the producer is closed");
    const batch = this.#buffer.add(record, sizeBytes, fields.partition, timeoutMs);
    const delivery = new Delivery(batch, batch.count - 1);
    if (batch.count === 1 || this.#buffer.hasFull) this.#pumping.schedule();
    return delivery;
  }

  #bufferFull(timeoutMs: number): BufferFullError {
    return new BufferFullError(
      `${this.options.bufferBytesMax} bytes of records are in flight, and none was answered within ${timeoutMs} ms; ` +
        "send more slowly, or raise bufferBytesMax",
    );
  }

  #flush(): void {
    this.#isFlushing = true;
    this.#pump();
  }

  #pump(): void {
    const topic = this.session.routes.topics.get(this.topic);
    if (topic) this.#buffer.adapt(topic);
    const hasRoom = (partition: number): boolean => this.#lanes.get(partition)?.hasRoom ?? true;
    const isIdle = (partition: number): boolean => this.#lanes.get(partition)?.isIdle ?? true;
    const batches = this.#buffer.take(hasRoom, isIdle, this.#isFlushing);
    this.#isFlushing &&= this.#buffer.isWaiting;
    clearTimeout(this.#alarm);
    const { nextDueMs } = this.#buffer;
    if (nextDueMs !== Infinity) this.#alarm = setTimeout(() => this.#pump(), Math.max(nextDueMs - steadyMs(), 0));
    for (const batch of batches) this.#lane(batch.partition).add(batch);
  }

  #lane(partition: number): PartitionLane {
    let lane = this.#lanes.get(partition);
    if (!lane) {
      const resolved = (batch: PendingBatch): void => this.#resolved(batch);
      lane = new PartitionLane(this.session, this.#buffer, partition, this.#producerId, resolved, () => this.#refresh());
      this.#lanes.set(partition, lane);
    }
    return lane;
  }

  #resolved(batch: PendingBatch): void {
    this.#buffer.release(batch);
    if (batch.error) this.#failure ??= batch;
    this.#room.set();
    if (this.#buffer.isWaiting) this.#pumping.schedule();
  }

  /** Describes the topic anew: a broker knows that it has grown, or that it is another one of its name. */
  #refresh(): void {
    if (this.#isRefreshing || this.session.isClosed) return;
    this.#isRefreshing = true;
    // At the leader of the metadata: the broker that refused knows more than this client, and perhaps than others.
    const options = { deadlineMs: steadyMs() + REFRESH_MS_MAX, route: CONTROLLER };
    this.session.submit("getMetadata", { topics: [this.topic] }, options, (result) => {
      this.#isRefreshing = false;
      if (result instanceof FlotillaError) return;
      this.session.routes.update(result, [this.topic]);
      const topic = this.session.routes.topics.get(this.topic);
      if (topic) this.#buffer.adapt(topic);
    });
  }

  #abandon(error: FlotillaError): void {
    const waiting = this.#buffer.take(() => true, () => true, true);
    for (const lane of this.#lanes.values()) lane.abandon(error);
    for (const batch of waiting) {
      batch.resolve(-1, error);
      this.#buffer.release(batch);
    }
  }
}
