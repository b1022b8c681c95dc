/**
 * Fetches partitions ahead of the application, and hands out their messages in order.
 *
 * Each partition has at most one fetch in flight; the next one is made as soon as less than one answer of the partition
 * is buffered, so the next messages travel while the application works. The position of a partition is the offset after
 * the last message that was delivered. Answers for an older position, before a seek, are recognised by their generation.
 *
 * With a filter, an answer also says how far the broker has looked: the position moves there when all messages before it
 * were delivered, also if there are none.
 */

import { BatchView, readHeader } from "../codec/batch-view.js";
import { MIB } from "../codec/record.js";
import { type Call, doubledMs, type Result } from "../core/call.js";
import { type Address, routeTo } from "../core/routes.js";
import type { Session } from "../core/session.js";
import { News, steadyMs } from "../core/time.js";
import {
  CorruptionError, FlotillaError, InvalidArgumentError, NotFoundError, OffsetOutOfRangeError, TopicReplacedError,
} from "../errors.js";
import { EARLIEST, takesAll, type WireFilter } from "../filter.js";
import { type Message, messagesOf } from "../message.js";

/** Which replica answers: the leader, the nearest to the client, or another one for each reader. */
export type ReadFrom = "leader" | "nearest" | "spread";

export interface FetchSettings {
  /** Go on with the oldest record left when retention has removed the next one; else OffsetOutOfRangeError. */
  skipRemoved?: boolean;
  readFrom?: ReadFrom;
  /** Of one answer; 1 MiB. */
  fetchBytes?: number;
  /** Fetched ahead of the application, in all; 32 MiB. */
  bufferBytesMax?: number;
}

export interface FetchOptions extends Required<FetchSettings> {
  linearizable: boolean;
  filter: WireFilter;
  timeoutMs: number;
}

/** How long a broker waits for records before it answers with none; a replica that is no leader is left sooner. */
const LONG_POLL_MS = 5_000;
const REPLICA_WAIT_MS = 1_000;
/** How long a replica that could not answer is avoided: at first, and at most. */
const AVOID_MS = 500;
const AVOID_MS_MAX = 30_000;

class Part {
  /** Where the partition ended when it was last fetched; -1: not known. */
  end = -1;
  fetchOffset: number;
  bufferedBytes = 0;
  call: Call | undefined;
  /** Retention removed the position; the oldest offset must be looked up. */
  isLost = false;
  isPaused = false;
  generation = 0;

  constructor(readonly number: number, public position: number, readonly topicId: number) {
    this.fetchOffset = position;
  }
}

/** A number stands for what a filter has skipped: the offset to go on at. */
type Fetched = { part: Part; generation: number; batch: Buffer | number };

export class Fetcher {
  readonly news = new News();
  readonly #parts = new Map<number, Part>();
  #batches: Fetched[] = [];
  #bufferedBytes = 0;
  #errors: FlotillaError[] = [];
  // Messages of the batch that is being delivered, from the cursor on.
  #messages: Message[] = [];
  #cursor = 0;
  #part: Part | undefined;
  // For `spread`: another replica for each reader. Replicas that could not answer: until when, and how often.
  readonly #place = Math.floor(Math.random() * 2 ** 16);
  readonly #avoided = new Map<string, [number, number]>();

  /** `replaced` gets the id of a topic that was deleted and created again; without it the reader gets the error. */
  constructor(
    readonly session: Session,
    readonly topic: string,
    readonly options: FetchOptions,
    readonly replaced?: (topicId: number) => void,
  ) {
    if (!(options.fetchBytes >= 1) || !(options.bufferBytesMax >= 1)) {
      throw new InvalidArgumentError("fetchBytes and bufferBytesMax are at least 1");
    }
  }

  get positions(): Map<number, number> {
    return new Map([...this.#parts.values()].map((part) => [part.number, part.position]));
  }

  /** Records after the positions, as far as answers have said; undefined: none has. */
  get behind(): number | undefined {
    const known = [...this.#parts.values()].filter((part) => part.end >= 0);
    return known.length ? known.reduce((sum, part) => sum + Math.max(part.end - part.position, 0), 0) : undefined;
  }

  get partitions(): number[] {
    return [...this.#parts.keys()];
  }

  add(partition: number, offset: number, topicId: number): void {
    this.remove(partition);
    this.#parts.set(partition, new Part(partition, offset, topicId));
  }

  remove(partition: number): void {
    const part = this.#parts.get(partition);
    if (!part) return;
    this.#goTo(part, part.position);
    this.#parts.delete(partition);
  }

  seek(partition: number, offset: number): void {
    this.#goTo(this.#partOf(partition), offset);
  }

  pause(partition: number): void {
    const part = this.#partOf(partition);
    part.isPaused = true;
    this.#goTo(part, part.position);
  }

  resume(partition: number): void {
    this.#partOf(partition).isPaused = false;
  }

  get paused(): number[] {
    return [...this.#parts.values()].filter((part) => part.isPaused).map((part) => part.number);
  }

  close(): void {
    for (const part of this.#parts.values()) this.#cancel(part);
    this.#parts.clear();
    this.news.set();
  }

  #partOf(partition: number): Part {
    const part = this.#parts.get(partition);
    if (!part) throw new InvalidArgumentError(`partition ${partition} is not read here, only ${this.partitions.join()}`);
    return part;
  }

  #goTo(part: Part, offset: number): void {
    part.position = part.fetchOffset = offset;
    part.generation++;
    part.bufferedBytes = 0;
    part.isLost = false;
    this.#cancel(part);
    if (part === this.#part) {
      this.#part = undefined;
      this.#messages = [];
      this.#cursor = 0;
    }
  }

  #cancel(part: Part): void {
    if (part.call) this.session.cancel(part.call);
    part.call = undefined;
  }

  // Fetching.

  /** Makes the fetches that there is room for. */
  fetch(): void {
    const { fetchBytes, bufferBytesMax } = this.options;
    let reserved = 0;
    for (const part of this.#parts.values()) if (part.call) reserved += fetchBytes;
    for (const part of this.#parts.values()) {
      if (part.isPaused || part.call || part.bufferedBytes >= fetchBytes) continue;
      const used = this.#bufferedBytes + reserved;
      if (used && used + fetchBytes > bufferBytesMax) break;
      reserved += fetchBytes;
      if (part.isLost) this.#lookUp(part);
      else this.#ask(part);
    }
  }

  #ask(part: Part): void {
    const { options, topic } = this;
    const { generation } = part;
    const replica = this.#replica(part.number);
    const waitMs = replica ? REPLICA_WAIT_MS : LONG_POLL_MS;
    const fields = {
      topic, partition: part.number, offset: part.fetchOffset, maxBytes: options.fetchBytes, waitMs,
      isAnyReplica: replica !== 0, isLinearizable: options.linearizable, topicId: part.topicId, ...options.filter,
    };
    const route = routeTo(topic, part.number, replica);
    const deadlineMs = steadyMs() + options.timeoutMs + waitMs;
    part.call = this.session.submit("fetch", fields, { deadlineMs, route, isSingle: replica !== 0 }, (result) => {
      if (part.generation !== generation) return;
      part.call = undefined;
      if (replica && result instanceof FlotillaError && (result.retryable || result instanceof NotFoundError)) {
        this.#avoid(part.number, replica);
        this.#ask(part);
        return;
      }
      this.#avoided.delete(`${part.number}/${replica}`);
      this.#arrived(part, result);
    }) as unknown as Call;
  }

  #arrived(part: Part, result: Result<"fetch">): void {
    if (result instanceof TopicReplacedError && this.replaced) this.replaced(part.topicId);
    else if (result instanceof OffsetOutOfRangeError && this.options.skipRemoved && !part.isLost) part.isLost = true;
    else if (result instanceof FlotillaError) this.#errors.push(result);
    else {
      this.#store(part, result.batches, result);
      this.fetch();
    }
    this.news.set();
  }

  #store(part: Part, batches: Buffer[], answer: { nextOffset: number; reached: number; logStart: number }): void {
    part.end = answer.nextOffset;
    for (const batch of batches) {
      try {
        const header = readHeader(batch);
        const end = header.baseOffset + header.count;
        if (end <= part.fetchOffset) continue;
        part.fetchOffset = end;
      } catch (error) {
        this.#errors.push(this.#damaged(part, error));
        return;
      }
      part.bufferedBytes += batch.length;
      this.#bufferedBytes += batch.length;
      this.#batches.push({ part, generation: part.generation, batch });
    }
    if (answer.reached > part.fetchOffset) {
      part.fetchOffset = answer.reached;
      this.#batches.push({ part, generation: part.generation, batch: answer.reached });
    }
    if (!batches.length && answer.logStart > part.fetchOffset) {
      part.fetchOffset = answer.logStart;
      this.#checkRemoved(part, answer.logStart);
    }
  }

  /** Goes on at the oldest offset of a partition whose position was removed. */
  #lookUp(part: Part): void {
    const fields = { topic: this.topic, partition: part.number, timestampMs: EARLIEST, topicId: part.topicId };
    const { generation } = part;
    const options = { deadlineMs: steadyMs() + this.options.timeoutMs };
    part.call = this.session.submit("listOffsets", fields, options, (result) => {
      if (part.generation !== generation) return;
      part.call = undefined;
      part.isLost = false;
      if (result instanceof FlotillaError) this.#errors.push(result);
      else if (result.offset > part.position) this.#goTo(part, result.offset);
      else {
        const text = `offset ${part.position} of partition ${part.number} of ${this.topic} does not exist yet`;
        this.#errors.push(new OffsetOutOfRangeError(`${text}; seek to go on`));
      }
      this.news.set();
    }) as unknown as Call;
  }

  // Replicas.

  /** The replica to ask next; 0: the leader. A wrong choice costs one refusal. */
  #replica(partition: number): number {
    const { routes } = this.session;
    const replicas = routes.topics.get(this.topic)?.partitions[partition]?.replicas ?? [];
    if (this.options.readFrom === "leader" || !replicas.length) return 0;
    const first = (this.#place + partition) % replicas.length;
    const usable = [...replicas.slice(first), ...replicas.slice(0, first)].filter((node) => {
      const address = routes.address(node);
      const [untilMs] = this.#avoided.get(`${partition}/${node}`) ?? [0];
      return address !== undefined && !routes.suspects.has(address) && untilMs <= steadyMs();
    });
    if (this.options.readFrom === "nearest") {
      const distance = (node: number): number => {
        const address = routes.address(node)!;
        return isHere(address) ? -2 : (routes.roundTripsMs.get(address) ?? -1);
      };
      usable.sort((one, other) => distance(one) - distance(other));
    }
    return usable[0] ?? 0;
  }

  #avoid(partition: number, node: number): void {
    const name = `${partition}/${node}`;
    const count = this.#avoided.get(name)?.[1] ?? 0;
    this.#avoided.set(name, [steadyMs() + doubledMs(AVOID_MS, count, AVOID_MS_MAX), count + 1]);
  }

  // Delivering.

  /** At most `messagesMax` messages that have arrived. Throws a pending error when there are none. */
  take(messagesMax: number): Message[] {
    let taken: Message[] = [];
    while (taken.length < messagesMax && (this.#cursor < this.#messages.length || this.#openNext())) {
      const piece = this.#messages.slice(this.#cursor, this.#cursor + messagesMax - taken.length);
      this.#cursor += piece.length;
      this.#part!.position = piece.at(-1)!.offset + 1;
      taken = taken.length ? [...taken, ...piece] : piece;
    }
    if (!taken.length && this.#errors.length) throw this.#errors.shift()!;
    return taken;
  }

  /** The next message, if one has arrived. Throws a pending error when there is none. */
  takeOne(): Message | undefined {
    if (this.#cursor >= this.#messages.length) {
      const isOpen = this.#openNext();
      this.fetch();
      if (!isOpen) {
        if (this.#errors.length) throw this.#errors.shift()!;
        return undefined;
      }
    }
    const message = this.#messages[this.#cursor++]!;
    this.#part!.position = message.offset + 1;
    return message;
  }

  /** Decodes the next batch. False: there is none. */
  #openNext(): boolean {
    for (let next = this.#batches.shift(); next; next = this.#batches.shift()) {
      const { part, generation, batch } = next;
      const isCurrent = generation === part.generation && this.#parts.get(part.number) === part;
      if (typeof batch === "number") {
        if (isCurrent) part.position = Math.max(part.position, batch);
        continue;
      }
      this.#bufferedBytes -= batch.length;
      if (!isCurrent) continue;
      part.bufferedBytes -= batch.length;
      if (this.#open(part, batch)) return true;
    }
    return false;
  }

  #open(part: Part, batch: Buffer): boolean {
    let messages: Message[];
    try {
      messages = messagesOf(this.topic, part.number, new BatchView(batch));
    } catch (error) {
      this.#errors.push(this.#damaged(part, error));
      this.#goTo(part, part.position);
      return false;
    }
    const first = messages[0]!.offset;
    if (first > part.position) {
      if (!takesAll(this.options.filter)) part.position = first;
      else if (!this.#checkRemoved(part, first)) return false;
    }
    this.#part = part;
    this.#messages = messages;
    this.#cursor = part.position - first;
    return this.#cursor < messages.length;
  }

  /** Handles missing offsets, which retention has removed, since offsets are dense. True: go on after them. */
  #checkRemoved(part: Part, found: number): boolean {
    if (this.options.skipRemoved) {
      part.position = found;
      return true;
    }
    const text = `offsets ${part.position} to ${found - 1} of partition ${part.number} of ${this.topic} were removed`;
    this.#errors.push(new OffsetOutOfRangeError(`${text}; seek to go on`));
    this.#goTo(part, part.position);
    return false;
  }

  #damaged(part: Part, cause: unknown): FlotillaError {
    if (!(cause instanceof InvalidArgumentError)) return cause as FlotillaError;
    const place = `partition ${part.number} of ${this.topic} at offset ${part.position}`;
    return new CorruptionError(`malformed batch from ${place}: ${cause.message}`, { cause });
  }
}

export function fetchOptions(settings: FetchSettings, filter: WireFilter, timeoutMs: number, linearizable = false): FetchOptions {
  return {
    skipRemoved: settings.skipRemoved ?? false,
    readFrom: settings.readFrom ?? "leader",
    fetchBytes: settings.fetchBytes ?? MIB,
    bufferBytesMax: settings.bufferBytesMax ?? 32 * MIB,
    linearizable,
    filter,
    timeoutMs,
  };
}

function isHere(address: Address): boolean {
  return /^(localhost|127\.|\[::1\])/.test(address);
}
