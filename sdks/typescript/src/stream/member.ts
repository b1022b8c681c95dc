/**
 * One member of a stream group: joins, sends heartbeats, claims and gives up partitions.
 *
 *     claiming   the coordinator assigned it; the partition learns the epoch, and returns the committed offset
 *     owned      the application has it, or gets it at its next poll
 *     recalled   the coordinator wants it back, or it is lost; the application gives it up at its next poll
 *
 * Heartbeats name the owned partitions. While those equal the assignment, a heartbeat is parked at the coordinator, which
 * answers when something changes; otherwise heartbeats are sent periodically, and at once when the application has given
 * something up. An application that does not poll for `pollMsMax` loses recalled partitions; their epoch makes its later
 * commits fail.
 */

import type { Operation, Reply, RequestFields } from "../codec/operations.js";
import type { Call, Result } from "../core/call.js";
import type { Session } from "../core/session.js";
import { steadyMs } from "../core/time.js";
import { FlotillaError, StaleGenerationError, TopicReplacedError } from "../errors.js";
import { EARLIEST, FROM_OFFSET, FROM_TIME, LATEST } from "../filter.js";

/** The heartbeat interval while a partition is still to be given up, and after a failure. */
const BEAT_MS = 500;
const SESSION_MS_DEFAULT = 30_000;
const HEARTBEAT_WAIT_MS_MAX = 60_000;

/** A partition to read from `offset` on, and the epoch of its commits. */
export interface Owned {
  partition: number;
  epoch: number;
  offset: number;
  /** The group has committed this offset; else it begins there. */
  isCommitted: boolean;
  topicId: number;
}

/** The recall of one partition. */
export interface Recall {
  partition: number;
  epoch: number;
  /** Another member owns it already. May become true before the application takes it. */
  isLost: boolean;
}

export interface MemberOptions {
  start: { kind: number; value: number };
  strategy: string;
  /** 0: as the group has it. */
  sessionMs: number;
  pollMsMax: number;
  timeoutMs: number;
}

type State = "claiming" | "owned" | "recalled";

interface Part {
  partition: number;
  epoch: number;
  topicId: number;
  state: State;
  call: Call | undefined;
  notice: Recall | undefined;
  timer: NodeJS.Timeout | undefined;
}

export class StreamMember {
  /** For the application, in order. */
  readonly changes: (Owned | Recall)[] = [];
  readonly errors: FlotillaError[] = [];
  isClosed = false;
  #generation = 0;
  #sessionMs: number;
  // The newest assignment: epochs by partition.
  #target = new Map<number, number>();
  readonly #parts = new Map<number, Part>();
  // The join or the heartbeat in flight, and the timer of the next heartbeat.
  #call: Call | undefined;
  #nextBeat: NodeJS.Timeout | undefined;
  #isJoined = false;
  #topicId = 0;
  // In partitions from this number on, which are younger than the group, it begins at the start; 0: in none.
  #firstPartitions = 0;

  /** `client` is shown to operators; `news` is called for each change and each error. */
  constructor(
    readonly session: Session,
    readonly topic: string,
    readonly group: string,
    readonly name: string,
    readonly options: MemberOptions,
    readonly news: () => void,
  ) {
    this.#sessionMs = options.sessionMs || SESSION_MS_DEFAULT;
  }

  /** Joins the group, unless that has happened. */
  begin(): void {
    if (!this.isClosed && !this.#isJoined && !this.#call && !this.#nextBeat) this.#join();
  }

  /** The application has given up these partitions, by epoch. */
  gaveUp(partitions: ReadonlyMap<number, number>): void {
    for (const [partition, epoch] of partitions) {
      const part = this.#parts.get(partition);
      if (part?.epoch === epoch) this.#drop(part);
    }
    this.#beatNow();
  }

  /** A partition has refused our epoch: another member owns it. */
  lost(partition: number, epoch: number): void {
    const part = this.#parts.get(partition);
    if (part?.epoch === epoch) this.#recall([part], true);
  }

  /** The topic of this id was deleted and created again: joins the group of the new one. */
  replaced(topicId: number): void {
    if (topicId !== this.#topicId || this.isClosed) return;
    this.#stopBeating();
    this.#beginAnew();
  }

  /** Leaves the group. A member that cannot leave is removed by the group later. */
  async leave(timeoutMs: number): Promise<void> {
    const wasJoined = this.#isJoined || this.#call !== undefined;
    this.isClosed = true;
    this.#stopBeating();
    for (const part of [...this.#parts.values()]) this.#drop(part);
    if (!wasJoined || this.session.isClosed) return;
    const { topic, group, name: member } = this;
    await this.session.call("leaveGroup", { topic, group, member, topicId: this.#topicId }, { timeoutMs }).catch(() => undefined);
  }

  // Membership.

  #join(): void {
    const { topic, group, name: member, options } = this;
    const { strategy, sessionMs } = options;
    const fields = { topic, group, member, client: this.session.options.name, strategy, sessionMs, topicId: this.#topicId };
    this.#call = this.#submit("joinGroup", fields, options.timeoutMs, (result) => {
      this.#call = undefined;
      if (this.isClosed) return;
      if (result instanceof TopicReplacedError) this.#beginAnew();
      // The next poll joins again.
      else if (result instanceof FlotillaError) this.#fail(result);
      else {
        this.#isJoined = true;
        this.#assigned(result);
      }
    });
  }

  /** Reports a change of the owned partitions at once. */
  #beatNow(): void {
    if (!this.#isJoined || this.isClosed) return;
    this.#stopBeating();
    this.#beat();
  }

  #beat(): void {
    this.#nextBeat = undefined;
    const { topic, group, name: member } = this;
    const owned = this.#owned();
    const waitMs = this.#hasAll(owned) ? Math.min(Math.floor(this.#sessionMs / 3), HEARTBEAT_WAIT_MS_MAX) : 0;
    const fields = { topic, group, member, generation: this.#generation, owned, waitMs, topicId: this.#topicId };
    this.#call = this.#submit("heartbeat", fields, waitMs + this.options.timeoutMs, (result) => this.#beaten(result));
  }

  #beaten(result: Result<"heartbeat">): void {
    this.#call = undefined;
    if (this.isClosed) return;
    if (result instanceof StaleGenerationError) {
      this.#removed();
      this.#join();
    } else if (result instanceof TopicReplacedError) this.#beginAnew();
    else if (!(result instanceof FlotillaError)) this.#assigned(result);
    // No coordinator. The member keeps its partitions: a new owner must claim them first, which ends our epoch.
    else if (result.retryable) this.#beatLater();
    else {
      this.#removed();
      this.#fail(result);
    }
  }

  #beatLater(): void {
    clearTimeout(this.#nextBeat);
    this.#nextBeat = setTimeout(() => this.#beat(), BEAT_MS);
  }

  #stopBeating(): void {
    clearTimeout(this.#nextBeat);
    this.#nextBeat = undefined;
    if (this.#call) this.session.cancel(this.#call);
    this.#call = undefined;
  }

  /** The group has removed this member: all of its partitions are lost. */
  #removed(): void {
    this.#isJoined = false;
    this.#target = new Map();
    this.#recall([...this.#parts.values()], true);
  }

  #beginAnew(): void {
    this.#removed();
    this.#topicId = 0;
    this.#generation = 0;
    this.#join();
  }

  // Assignment.

  #assigned(result: Reply<"heartbeat">): void {
    this.#generation = result.generation;
    this.#topicId = result.topicId;
    this.#firstPartitions = result.firstPartitions;
    this.#sessionMs = result.sessionMs || this.#sessionMs;
    this.#target = new Map(result.partitions.map((partition, at) => [partition, result.epochs[at]!]));
    const target = this.#target;
    // Another epoch of the same partition: a move was cancelled, and no other member owned it in between.
    this.#recall([...this.#parts.values()].filter((part) => target.get(part.partition) !== part.epoch), false);
    for (const [partition, epoch] of target) if (!this.#parts.has(partition)) this.#claim(partition, epoch);
    if (this.#call || this.#nextBeat) return;
    if (this.#hasAll(this.#owned())) this.#beat();
    else this.#beatLater();
  }

  /** The owned partitions, without lost ones that the application has not taken note of. */
  #owned(): number[] {
    const parts = [...this.#parts.values()].filter((part) => !part.notice?.isLost);
    return parts.map((part) => part.partition).sort((one, other) => one - other);
  }

  #hasAll(owned: readonly number[]): boolean {
    return owned.length === this.#target.size && owned.every((partition) => this.#target.has(partition));
  }

  /** Asks the application to give these up; those that it never got are dropped at once. */
  #recall(parts: readonly Part[], isLost: boolean): void {
    for (const part of parts) {
      if (part.state === "claiming") this.#drop(part);
      else if (part.state === "owned") {
        part.state = "recalled";
        part.notice = { partition: part.partition, epoch: part.epoch, isLost };
        part.timer = setTimeout(() => this.#giveUpAlone(part), this.options.pollMsMax).unref();
        this.changes.push(part.notice);
      } else if (isLost) part.notice!.isLost = true;
    }
    this.news();
  }

  /** The application does not poll: the partition goes to another member without it. */
  #giveUpAlone(part: Part): void {
    part.notice!.isLost = true;
    this.#drop(part);
    this.#beatNow();
  }

  #drop(part: Part): void {
    if (this.#parts.get(part.partition) === part) this.#parts.delete(part.partition);
    if (part.call) this.session.cancel(part.call);
    part.call = undefined;
    clearTimeout(part.timer);
  }

  // Claims.

  #claim(partition: number, epoch: number): void {
    const topicId = this.#topicId;
    const part: Part = { partition, epoch, topicId, state: "claiming", call: undefined, notice: undefined, timer: undefined };
    this.#parts.set(partition, part);
    const { topic, group, options } = this;
    this.#step(part, "claimPartition", { group, topic, partition, epoch, topicId }, ({ offset }) => {
      const isYounger = this.#firstPartitions > 0 && this.#firstPartitions <= partition;
      const start = isYounger ? { kind: EARLIEST, value: 0 } : options.start;
      if (offset >= 0) this.#own(part, offset, true);
      else if (start.kind === FROM_OFFSET) this.#own(part, start.value, false);
      else this.#find(part, start.kind === FROM_TIME ? start.value : start.kind);
    });
  }

  #find(part: Part, timestampMs: number): void {
    const { partition, topicId } = part;
    this.#step(part, "listOffsets", { topic: this.topic, partition, timestampMs, topicId }, ({ offset }) => {
      // All records are older.
      if (offset < 0 && timestampMs !== EARLIEST && timestampMs !== LATEST) this.#find(part, LATEST);
      else if (timestampMs === EARLIEST) this.#own(part, offset, false);
      else this.#beginAt(part, offset);
    });
  }

  /** Commits where the group begins, before anything is read: a later owner would find another place. */
  #beginAt(part: Part, offset: number): void {
    const { partition, epoch, topicId } = part;
    const fields = { group: this.group, topic: this.topic, partition, offset, epoch, topicId };
    this.#step(part, "commitOffset", fields, (committed) => this.#own(part, committed.offset, true));
  }

  #own(part: Part, offset: number, isCommitted: boolean): void {
    const { partition, epoch, topicId } = part;
    part.state = "owned";
    this.changes.push({ partition, epoch, offset, isCommitted, topicId });
    this.news();
  }

  /** One request of a claim. */
  #step<O extends Operation>(part: Part, operation: O, fields: RequestFields<O>, done: (reply: Reply<O>) => void): void {
    part.call = this.#submit(operation, fields, this.options.timeoutMs, (result) => {
      part.call = undefined;
      if (result instanceof FlotillaError) this.#refused(part, result);
      else done(result);
    });
  }

  /** A claim failed: the next heartbeat reports it, and the answer assigns it again. */
  #refused(part: Part, error: FlotillaError): void {
    this.#drop(part);
    if (error instanceof TopicReplacedError) {
      this.replaced(part.topicId);
      return;
    }
    if (!(error instanceof StaleGenerationError) && !error.retryable) this.#fail(error);
    if (!this.#isJoined || this.isClosed) return;
    this.#stopBeating();
    this.#beatLater();
  }

  #submit<O extends Operation>(operation: O, fields: RequestFields<O>, timeoutMs: number, done: (result: Result<O>) => void): Call {
    return this.session.submit(operation, fields, { deadlineMs: steadyMs() + timeoutMs }, done) as unknown as Call;
  }

  #fail(error: FlotillaError): void {
    this.errors.push(error);
    this.news();
  }
}
