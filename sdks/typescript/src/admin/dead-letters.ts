/** The dead letters of a group: messages that failed for the last time, to be listed, sent again, or deleted. */

import { blake2b64 } from "../codec/blake2b.js";
import type { Headers } from "../codec/record.js";
import { type Limits, sleep, steadyMs } from "../core/time.js";
import { InvalidArgumentError, NotFoundError } from "../errors.js";
import type { Message } from "../message.js";
import type { RecordInit } from "../producer/fields.js";
import type { QueueMessage } from "../queue/message.js";
import type { Queue } from "../queue/queue.js";
import type { Client } from "../client.js";

/** Redrives of a message before another one must be forced: it would only die again. */
const REDRIVEN_MAX = 3;
const STEP_MESSAGES = 100;
const PEEK_MESSAGES = 100;
/** Letters that a run passes over stay leased for as long as a broker allows. */
const LEASE_MS_MAX = 43_200_000;
/** How long a poll waits for letters that should be there, and how many empty ones end the run. */
const END_MS = 10_000;
const EMPTY_POLLS_MAX = 3;
const OPEN_STATES = ["delayed", "ready", "blocked", "leased", "retrying"];
const NAME_LENGTH_MAX = 200;
const PREFIX = "flotilla-dead-";
const REDRIVEN = "flotilla-redriven";
const REDRIVE_GROUP = "flotilla.redrive";

/** A message that failed for the last time in a group. */
export interface DeadLetter {
  /** Its position in the dead-letter topic. */
  partition: number;
  offset: number;
  payload: Buffer;
  key: Buffer | undefined;
  /** As in the original message. */
  headers: Headers;
  priority: number;
  contentType: number;
  /** Its origin. */
  topic: string;
  originPartition: number;
  originOffset: number;
  group: string;
  /** The error of the last attempt, and the number of attempts. */
  reason: string;
  attempts: number;
  diedMs: number;
  /** How often it was redriven before. */
  redriven: number;
  /** As in the original message; 0: not set. */
  maxDeliveries: number;
  ttlMs: number;
}

/** All given conditions must match. */
export interface DeadLetterFilter {
  /** A part of the reason, or an expression that is searched in it. */
  reason?: string | RegExp;
  key?: Uint8Array;
  /** The time of death: from this time, and before that time. */
  sinceMs?: number;
  untilMs?: number;
  /** In the dead-letter topic. */
  partition?: number;
  offset?: number;
}

/** The counts of a redrive or a purge, and of a dry run, which changes nothing. */
export interface Redriven {
  /** Redriven, or purged. */
  done: number;
  /** Matched by the filter, but redriven too often before. */
  refused: number;
  /** Not matched by the filter. */
  skipped: number;
}

export interface RunOptions extends DeadLetterFilter {
  limit?: number;
  dryRun?: boolean;
  ratePerSecond?: number;
  /** Called after each step with the counts so far. */
  progress?: (counts: Redriven) => void;
  signal?: AbortSignal;
}

/** Made by `Client.deadLetters`. */
export class DeadLetters {
  #topic: string;

  /** @internal */
  constructor(private readonly client: Client, readonly origin: string, readonly group: string, private readonly limits: Limits) {
    this.#topic = deadLetterTopic(group, origin);
  }

  /** The topic in which they are: as the group's setting says, which the first call asks for. */
  get topic(): string {
    return this.#topic;
  }

  /** The oldest dead letters of each partition that are not redriven or purged; [] without such a topic. */
  async list({ limit = 100, timeoutMs, signal, ...wanted }: DeadLetterFilter & { limit?: number } & Limits = {}): Promise<DeadLetter[]> {
    const limits = this.#limitsFor({ timeoutMs, signal });
    const redriver = await this.#findTopic(limits);
    const found: DeadLetter[] = [];
    let partitions;
    try {
      ({ partitions } = await this.client.describeTopic(this.#topic, limits));
    } catch (error) {
      if (error instanceof NotFoundError) return found;
      throw error;
    }
    for (const { number } of partitions) {
      if ((wanted.partition ?? number) === number) found.push(...(await this.#listPartition(redriver, number, limit - found.length, wanted, limits)));
    }
    return found;
  }

  /** One dead letter, also after a redrive or a purge. Rejects with NotFoundError. */
  async peek(partition: number, offset: number, given: Limits = {}): Promise<DeadLetter> {
    const limits = this.#limitsFor(given);
    await this.#findTopic(limits);
    const [message] = await this.client.peek(this.#topic, { partition, offset, maxMessages: 1, ...limits });
    const letter = message && readLetter(message);
    if (letter?.offset !== offset || !this.#isOwn(letter)) {
      throw new NotFoundError(`there is no dead letter at offset ${offset} in partition ${partition} of ${this.#topic}`);
    }
    return letter;
  }

  /**
   * Sends dead letters to their topic again, with all their fields; every group gets them. Their time to live begins
   * anew. A message that was redriven three times stays, unless `force` is set.
   */
  async redrive({ force = false, ...options }: RunOptions & { force?: boolean } = {}): Promise<Redriven> {
    const run = new Run(options, force ? Infinity : REDRIVEN_MAX);
    return options.dryRun ? this.#dryRun(run) : this.#work(run, (chosen) => this.#sendAgain(chosen));
  }

  /** Discards dead letters: `list` omits them, and retention removes them. */
  async purge(options: RunOptions = {}): Promise<Redriven> {
    const run = new Run(options, Infinity);
    return options.dryRun ? this.#dryRun(run) : this.#work(run, undefined);
  }

  // Inside.

  #limitsFor({ timeoutMs = this.limits.timeoutMs, signal = this.limits.signal }: Limits): Limits {
    return { timeoutMs, signal };
  }

  /** The group that redrives the letters, in `topic`, which is known from here on. */
  async #findTopic(limits: Limits): Promise<string> {
    const own = deadLetterTopic(this.group, this.origin);
    let settings: Record<string, string> = {};
    try {
      settings = await this.client.alterGroup(this.origin, this.group, {}, limits);
    } catch (error) {
      // The topic was deleted, and the settings with it; its letters may be there.
      if (!(error instanceof NotFoundError)) throw error;
    }
    this.#topic = settings.dead_letter_topic || own;
    return this.#topic === own ? REDRIVE_GROUP : joined(`${REDRIVE_GROUP}.`, this.group, this.origin);
  }

  /** Also of a message that someone put into the topic by hand. */
  #isOwn(letter: DeadLetter): boolean {
    return (letter.topic || this.origin) === this.origin && (letter.group || this.group) === this.group;
  }

  async #listPartition(
    redriver: string, partition: number, limit: number, wanted: DeadLetterFilter, limits: Limits,
  ): Promise<DeadLetter[]> {
    const info = await this.client.describeGroup(this.#topic, redriver, limits).catch(orMissing);
    const part = info?.partitions.get(partition);
    let offset = wanted.offset ?? part?.floor;
    const found: DeadLetter[] = [];
    while (found.length < limit) {
      const messages = await this.client.peek(this.#topic, { partition, offset, maxMessages: PEEK_MESSAGES, ...limits });
      let letters = messages.map(readLetter).filter((letter) => this.#isOwn(letter) && isMeant(letter, wanted));
      if (part) {
        const states = await Promise.all(
          letters.map((letter) => this.client.explain(this.#topic, redriver, partition, letter.offset, { history: false, ...limits })),
        );
        letters = letters.filter((_, at) => OPEN_STATES.includes(states[at]!.state));
      }
      found.push(...letters);
      if (messages.length < PEEK_MESSAGES || wanted.offset !== undefined) break;
      offset = messages.at(-1)!.offset + 1;
    }
    return found.slice(0, limit);
  }

  async #dryRun(run: Run): Promise<Redriven> {
    for (const letter of await this.list({ ...run.options, limit: Infinity })) run.judge(letter);
    run.report();
    return run.counts;
  }

  async #work(run: Run, send: ((chosen: [QueueMessage, DeadLetter][]) => Promise<void>) | undefined): Promise<Redriven> {
    const { signal } = run.options;
    const redriver = await this.#findTopic(this.#limitsFor({ signal }));
    await using queue = this.client.queue(this.#topic, redriver, { leaseMsMax: LEASE_MS_MAX, timeoutMs: this.limits.timeoutMs });
    for (let emptyPolls = 0; !run.isOver && emptyPolls < EMPTY_POLLS_MAX; ) {
      const messages = await queue.poll(run.stepMessages, { waitMs: emptyPolls ? END_MS : 0, signal });
      if (messages.length) {
        emptyPolls = 0;
        await this.#step(queue, run, messages, send);
        await run.pace();
      } else if (await this.#hasMore(redriver)) emptyPolls++;
      else break;
    }
    return run.counts;
  }

  /** Whether letters are left that a poll did not return: a new leader delivers nothing at first. */
  async #hasMore(redriver: string): Promise<boolean> {
    const info = await this.client.describeGroup(this.#topic, redriver, this.limits).catch(orMissing);
    // No partition knows the group yet: the poll did not wait for that.
    return !info || info.ready > 0;
  }

  /** Handles one step. Letters that are passed over stay leased until the consumer is closed. */
  async #step(
    queue: Queue,
    run: Run,
    messages: readonly QueueMessage[],
    send: ((chosen: [QueueMessage, DeadLetter][]) => Promise<void>) | undefined,
  ): Promise<void> {
    const read = messages.map((message): [QueueMessage, DeadLetter] => [message, readLetter(message)]);
    const foreign = read.filter(([, letter]) => !this.#isOwn(letter));
    const chosen = read.filter(([, letter]) => this.#isOwn(letter)).filter(([, letter]) => run.judge(letter));
    if (chosen.length) await send?.(chosen);
    await queue.ack([...chosen, ...foreign].map(([message]) => message));
    run.report();
  }

  async #sendAgain(chosen: readonly [QueueMessage, DeadLetter][]): Promise<void> {
    const byTopic = new Map<string, RecordInit[]>();
    for (const [message, letter] of chosen) {
      const topic = letter.topic || this.origin;
      // By the id of the dead-letter topic: in the next one of its name, other letters have these offsets.
      const place = `${message.lease.topicId}/${letter.partition}/${letter.offset}`;
      const { payload, key, headers, priority, contentType, ttlMs, maxDeliveries } = letter;
      const idempotencyKey = `flotilla-redrive/${letter.redriven + 1}/${place}`;
      const records = byTopic.get(topic) ?? [];
      records.push({ payload, key, headers, priority, contentType, ttlMs, maxDeliveries, idempotencyKey });
      byTopic.set(topic, records);
    }
    for (const [topic, records] of byTopic) await this.client.produceMany(topic, records, this.limits);
  }
}

/** One run over the dead letters: its filter, its counts and its rate. */
class Run {
  readonly counts: Redriven = { done: 0, refused: 0, skipped: 0 };
  readonly #limit: number;
  #begunMs: number | undefined;

  constructor(readonly options: RunOptions, readonly redrivenMax: number) {
    this.#limit = options.limit ?? Infinity;
    if (!(this.#limit >= 0)) throw new InvalidArgumentError("limit is at least 0");
    if (options.ratePerSecond !== undefined && !(options.ratePerSecond > 0)) {
      throw new InvalidArgumentError("ratePerSecond is above 0");
    }
  }

  get isOver(): boolean {
    return this.counts.done >= this.#limit;
  }

  get stepMessages(): number {
    const step = Math.min(Math.max(Math.floor(this.options.ratePerSecond ?? STEP_MESSAGES), 1), STEP_MESSAGES);
    return Math.max(Math.min(step, this.#limit - this.counts.done), 1);
  }

  /** Whether this letter is to be handled; counts it. */
  judge(letter: DeadLetter): boolean {
    if (this.isOver || !isMeant(letter, this.options)) this.counts.skipped++;
    else if (letter.redriven >= this.redrivenMax) this.counts.refused++;
    else {
      this.counts.done++;
      return true;
    }
    return false;
  }

  report(): void {
    this.options.progress?.({ ...this.counts });
  }

  /** Waits until the rate allows the next step. */
  async pace(): Promise<void> {
    const { ratePerSecond, signal } = this.options;
    // Letters that were passed over must be released at once.
    if (this.isOver || ratePerSecond === undefined) return;
    this.#begunMs ??= steadyMs();
    await sleep(this.#begunMs + (this.counts.done / ratePerSecond) * 1000 - steadyMs(), signal);
  }
}

/** Tolerates missing and malformed headers: messages that were put into the topic by hand must be readable, too. */
export function readLetter(message: Message): DeadLetter {
  const headers = message.headers;
  const byName = new Map(headers);
  const text = (name: string): string => byName.get(name)?.toString() ?? "";
  const number = (name: string, most = Number.MAX_SAFE_INTEGER): number => {
    const found = /^\d{1,20}$/.test(text(name)) ? Number(text(name)) : 0;
    return found <= most ? found : 0;
  };
  const own = byName.has(`${PREFIX}own-headers`)
    ? headers.slice(0, number(`${PREFIX}own-headers`))
    : headers.filter(([name]) => name !== REDRIVEN && !name.startsWith(PREFIX));
  const { partition, offset, payload, key, priority, contentType } = message;
  return {
    partition, offset, payload, key, priority, contentType, headers: own,
    topic: text(`${PREFIX}topic`),
    originPartition: number(`${PREFIX}partition`),
    originOffset: number(`${PREFIX}offset`),
    group: text(`${PREFIX}group`),
    reason: text(`${PREFIX}reason`),
    attempts: number(`${PREFIX}attempts`),
    diedMs: number(`${PREFIX}died-time`) || message.timestampMs,
    redriven: number(REDRIVEN),
    maxDeliveries: number(`${PREFIX}max-deliveries`, 65_535),
    ttlMs: number(`${PREFIX}ttl-ms`),
  };
}

function isMeant(letter: DeadLetter, wanted: DeadLetterFilter): boolean {
  const { reason = "", key, sinceMs = 0, untilMs = Infinity, partition, offset } = wanted;
  return (
    (typeof reason === "string" ? letter.reason.includes(reason) : reason.test(letter.reason)) &&
    (key === undefined || (letter.key !== undefined && Buffer.compare(letter.key, key) === 0)) &&
    sinceMs <= letter.diedMs && letter.diedMs < untilMs &&
    (partition ?? letter.partition) === letter.partition &&
    (offset ?? letter.offset) === letter.offset
  );
}

/** `dlq.<group>.<topic>`, unless the group's setting names another. Dots of the group are doubled. */
export function deadLetterTopic(group: string, topic: string): string {
  return joined("dlq.", group, topic);
}

function joined(prefix: string, group: string, topic: string): string {
  const name = `${prefix}${group.replaceAll(".", "..")}.${topic}`;
  if (name.length <= NAME_LENGTH_MAX && !group.endsWith(".") && !topic.startsWith(".")) return name;
  const digest = blake2b64(Buffer.from(`${group}/${topic}`));
  return `${name.slice(0, NAME_LENGTH_MAX - digest.length - 1)}-${digest}`;
}

function orMissing(error: unknown): undefined {
  if (!(error instanceof NotFoundError)) throw error;
}
