/** Administration of groups and single messages: questions to all partitions of a topic at once. */

import { BatchView } from "../codec/batch-view.js";
import type { Operation, Reply, RequestFields } from "../codec/operations.js";
import { KIB } from "../codec/record.js";
import type { Session } from "../core/session.js";
import { type Limits, TimeLimit } from "../core/time.js";
import { GroupInUseError, InvalidArgumentError, NotFoundError } from "../errors.js";
import { chosenPartitions, EARLIEST, LATEST, readStart, type StartAt } from "../filter.js";
import { type Message, messagesOf } from "../message.js";
import { type Bytes, toBytes } from "../producer/fields.js";

/** Size of a fetch that peeks at a few messages; a larger batch is returned as well. */
const PEEK_BYTES = 64 * KIB;

export type PartitionOfGroup = Reply<"describeGroup">;
export type GroupKind = "queue" | "stream" | "offset";

/** One group, in all partitions. */
export interface GroupInfo {
  topic: string;
  group: string;
  kind: GroupKind;
  partitions: Map<number, PartitionOfGroup>;
  /** Members and generation of a stream group. */
  stream?: Reply<"describeStreamGroup">;
  /** Unsettled, ready and leased messages in all partitions, and totals. */
  lag: number;
  ready: number;
  leased: number;
  deadTotal: number;
  ackedTotal: number;
}

/** The groups of one topic. One call of the user takes one time limit. */
export class Groups {
  readonly #limit: TimeLimit;

  constructor(private readonly session: Session, private readonly topic: string, private readonly limits: Limits & { timeoutMs: number }) {
    this.#limit = new TimeLimit(limits.timeoutMs);
  }

  /** All groups of the topic and their kinds, in the order of names. */
  async names(): Promise<Map<string, GroupKind>> {
    const { topic } = this;
    const lists = await this.#each((partition) => this.#ask("listGroups", { topic, partition }));
    const found = new Map<string, GroupKind>();
    for (const { groups } of lists.values()) {
      for (const [name, kind] of Object.entries(groups)) {
        if (found.get(name) !== "queue") found.set(name, kind as GroupKind);
      }
    }
    const streams = await this.#ask("listStreamGroups", { topic });
    for (const name of streams.groups) if (found.get(name) !== "queue") found.set(name, "stream");
    return new Map([...found].sort(([one], [other]) => (one < other ? -1 : 1)));
  }

  /** Throws NotFoundError when no partition knows the group. */
  async describe(group: string): Promise<GroupInfo> {
    const { topic } = this;
    const asked = await this.#each((partition) => this.#ask("describeGroup", { topic, partition, group }).catch(orMissing));
    const partitions = new Map<number, PartitionOfGroup>();
    for (const [number, found] of asked) if (found) partitions.set(number, found);
    const kinds = new Set([...partitions.values()].map((part) => part.kind));
    const stream = kinds.has("queue") ? undefined : await this.#describeStream(group);
    if (!stream && !partitions.size) throw new NotFoundError(`topic ${topic} has no group ${group}`);
    const kind = kinds.has("queue") ? "queue" : stream ? "stream" : "offset";
    const sum = (name: "lag" | "ready" | "leased" | "deadTotal" | "ackedTotal"): number =>
      [...partitions.values()].reduce((total, part) => total + part[name], 0);
    return {
      topic, group, kind, partitions, stream,
      lag: sum("lag"), ready: sum("ready"), leased: sum("leased"), deadTotal: sum("deadTotal"), ackedTotal: sum("ackedTotal"),
    };
  }

  #describeStream(group: string): Promise<Reply<"describeStreamGroup"> | undefined> {
    return this.#ask("describeStreamGroup", { topic: this.topic, group }).catch(orMissing);
  }

  /** The old and the new position by partition. Throws GroupInUseError for a stream group with members. */
  async reset(group: string, start: StartAt, partitions: readonly number[] | undefined, isDryRun: boolean): Promise<Map<number, Reply<"resetGroup">>> {
    const { topic } = this;
    const place = readStart(start);
    const epoch = await this.#epoch(group, isDryRun);
    const fields = { topic, group, start: place, isDryRun, epoch };
    return this.#each((partition) => this.#ask("resetGroup", { ...fields, partition }), partitions);
  }

  /** The epoch under which a stream group without members can be moved; 0: it is no stream group. */
  async #epoch(group: string, isDryRun: boolean): Promise<number> {
    if (isDryRun) {
      const found = await this.#describeStream(group);
      if (found?.members.length) throw inUse(group, found.members.map((member) => member.name));
      return found?.generation ?? 0;
    }
    const fenced = await this.#ask("fenceGroup", { topic: this.topic, group }).catch(orMissing);
    return fenced?.generation ?? 0;
  }

  /**
   * Throws NotFoundError when no partition knows the group, and GroupInUseError when it has live members. All partitions
   * are asked for members before anything is deleted. Settings are removed last.
   */
  async delete(group: string, isForced: boolean): Promise<void> {
    const { topic } = this;
    if (!isForced) {
      const asked = await this.#each((partition) => this.#ask("describeGroup", { topic, partition, group }).catch(orMissing));
      const members = [...asked.values()].flatMap((part) => part?.members ?? []);
      const live = members.filter((member) => member.isLive).map((member) => member.name);
      if (live.length) throw inUse(group, [...new Set(live)].sort());
    }
    let isKnown = (await this.#ask("forgetGroup", { topic, group, isForced }).catch(orMissing)) !== undefined;
    for (const partition of await this.#numbers()) {
      isKnown = (await this.#ask("deleteGroup", { topic, partition, group, isForced }).catch(orMissing)) !== undefined || isKnown;
    }
    const settings = Object.keys(await this.alter(group, {}));
    if (settings.length) await this.alter(group, Object.fromEntries(settings.map((name) => [name, ""])));
    if (!isKnown && !settings.length) throw new NotFoundError(`topic ${topic} has no group ${group}`);
  }

  async alter(group: string, settings: Record<string, string>): Promise<Record<string, string>> {
    return (await this.#ask("alterGroup", { topic: this.topic, group, settings })).settings;
  }

  // Single messages.

  async cancel(message: { partition?: number; offset?: number; idempotencyKey?: Bytes }): Promise<{ partition: number; offset: number }[]> {
    const { partition, offset, idempotencyKey } = message;
    if ((offset === undefined) === (idempotencyKey === undefined)) {
      throw new InvalidArgumentError("say which message: either by its offset or by its idempotency key");
    }
    if (offset !== undefined && partition === undefined) {
      throw new InvalidArgumentError("an offset is one of a partition: say which");
    }
    const offsets = offset === undefined ? [] : [offset];
    const keys = idempotencyKey === undefined ? [] : [toBytes(idempotencyKey)];
    const fields = { topic: this.topic, offsets, keys };
    const chosen = partition === undefined ? undefined : [partition];
    const found = await this.#each((number) => this.#ask("cancelRecords", { ...fields, partition: number }), chosen);
    return [...found].flatMap(([number, reply]) => reply.offsets.map((each) => ({ partition: number, offset: each })));
  }

  explain(group: string, partition: number, offset: number, hasHistory: boolean): Promise<Reply<"explainMessage">> {
    return this.#ask("explainMessage", { topic: this.topic, partition, offset, group, hasHistory });
  }

  /** Stored messages from an offset, or from the oldest. Changes nothing. */
  async peek(partition: number, offset: number | undefined, maxMessages: number): Promise<Message[]> {
    if (!(maxMessages >= 1)) throw new InvalidArgumentError("maxMessages is at least 1");
    const find = async (timestampMs: number): Promise<number> =>
      (await this.#ask("listOffsets", { topic: this.topic, partition, timestampMs })).offset;
    const [oldest, end] = [await find(EARLIEST), await find(LATEST)];
    const found: Message[] = [];
    for (let position = Math.max(offset ?? oldest, oldest); position < end && found.length < maxMessages; ) {
      const { batches } = await this.#ask("fetch", { topic: this.topic, partition, offset: position, maxBytes: PEEK_BYTES });
      if (!batches.length) break;
      for (const batch of batches) {
        const messages = messagesOf(this.topic, partition, new BatchView(batch));
        found.push(...messages.filter((message) => message.offset >= position));
        position = messages.at(-1)!.offset + 1;
      }
    }
    return found.slice(0, maxMessages);
  }

  // Inside.

  async #numbers(partitions?: readonly number[]): Promise<number[]> {
    return chosenPartitions(await this.session.topic(this.topic, this.#asking), partitions);
  }

  get #asking(): Limits & { timeoutMs: number } {
    return { ...this.limits, timeoutMs: this.#limit.leftMs || 1 };
  }

  #ask<O extends Operation>(operation: O, fields: RequestFields<O>): Promise<Reply<O>> {
    return this.session.call(operation, fields, this.#asking);
  }

  /** Asks all partitions at once. */
  async #each<T>(ask: (partition: number) => Promise<T>, partitions?: readonly number[]): Promise<Map<number, T>> {
    const numbers = await this.#numbers(partitions);
    const answers = await Promise.all(numbers.map(ask));
    return new Map(numbers.map((number, at) => [number, answers[at]!]));
  }
}

/** Nothing, where there is no such group or topic. */
function orMissing(error: unknown): undefined {
  if (!(error instanceof NotFoundError)) throw error;
}

function inUse(group: string, members: readonly string[]): GroupInUseError {
  return new GroupInUseError(`group ${group} has ${members.length} live members, to leave first: ${members.slice(0, 3).join(", ")}`);
}
