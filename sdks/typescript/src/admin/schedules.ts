/** Schedules: recurring messages that the cluster produces by itself. */

import type { Reply } from "../codec/operations.js";
import type { Session } from "../core/session.js";
import { type Limits, TimeLimit } from "../core/time.js";
import { InvalidArgumentError, NotFoundError } from "../errors.js";
import { type Bytes, type HeadersInit, makeRecord } from "../producer/fields.js";

export type ScheduleInfo = NonNullable<Reply<"createSchedule">["schedule"]>;

export interface ScheduleSettings {
  /** Five fields, as in "0 3 * * *", or six with the seconds first; also `@hourly`, `@daily` and the like. */
  cron?: string;
  /** The IANA name of the zone in which the expression is meant; by default UTC. */
  timeZone?: string;
  /** Or an interval from a second on, counted from `startAt`, or from now. */
  everyMs?: number;
  startAt?: Date | number;
  /** Of occurrences that the cluster could not produce in time: none, one message for all, or the newest `missedMax`. */
  missed?: "skip" | "one" | "all";
  missedMax?: number;
  key?: Bytes;
  headers?: HeadersInit;
  priority?: number;
  contentType?: number;
  /** A schedule of that name gets this definition; one that has it stays as it is. */
  update?: boolean;
}

const UPCOMING = 5;

/** The attribute `schedules` of a Client. */
export class Schedules {
  /** @internal */
  constructor(private readonly session: () => Session, private readonly timeoutMs: number) {}

  /**
   * Produces a message at every time that `cron` names, or at an interval. Its topic is created if it is missing, where
   * the cluster allows that. Rejects with AlreadyExistsError.
   */
  async create(name: string, topic: string, payload: Bytes, settings: ScheduleSettings & Limits): Promise<ScheduleInfo> {
    const { cron, everyMs, startAt = 0, headers, priority, contentType } = settings;
    if ((cron === undefined) === (everyMs === undefined)) {
      throw new InvalidArgumentError("a schedule has either a cron expression or an interval");
    }
    const record = makeRecord(payload, { key: settings.key, headers, priority, contentType }, 0);
    if (record.key?.length === 0) throw new InvalidArgumentError("the key of a schedule is not empty");
    const limit = new TimeLimit(settings.timeoutMs ?? this.timeoutMs);
    const asking = (): Limits & { timeoutMs: number } => ({ signal: settings.signal, timeoutMs: limit.leftMs || 1 });
    await this.session().topic(topic, asking(), true);
    const definition = {
      topic, cron, everyMs, timeZone: settings.timeZone, startMs: Number(startAt), missed: settings.missed ?? "one",
      missedMax: settings.missedMax ?? 100, payload: record.payload, key: record.key, priority: record.priority,
      headers: record.headers.map(([each, value]) => ({ name: each, value })), contentType: record.contentType,
    };
    const fields = { name, definition, isUpdate: settings.update ?? false };
    const effect = fields.isUpdate ? "repeatable" : "once";
    return (await this.session().call("createSchedule", fields, { ...asking(), effect })).schedule!;
  }

  /** All schedules by name, each with its `upcoming` next occurrences. */
  async list({ upcoming = 1, ...limits }: { upcoming?: number } & Limits = {}): Promise<ScheduleInfo[]> {
    const found: ScheduleInfo[] = [];
    let after = "";
    do {
      const page = await this.session().call("listSchedules", { after, upcoming }, this.#asking(limits));
      found.push(...page.schedules);
      after = page.next;
    } while (after);
    return found;
  }

  /** One schedule. Rejects with NotFoundError. */
  async get(name: string, { upcoming = UPCOMING, ...limits }: { upcoming?: number } & Limits = {}): Promise<ScheduleInfo> {
    const { schedules } = await this.session().call("listSchedules", { name, upcoming }, this.#asking(limits));
    if (!name || !schedules[0]) throw new NotFoundError(`there is no schedule ${name}`);
    return schedules[0];
  }

  /** Nothing is produced until it is resumed, and nothing of that time afterwards. */
  pause(name: string, limits: Limits = {}): Promise<ScheduleInfo> {
    return this.#pause(name, true, limits);
  }

  /** Goes on with the next occurrence from now. */
  resume(name: string, limits: Limits = {}): Promise<ScheduleInfo> {
    return this.#pause(name, false, limits);
  }

  /** Removes a schedule, and returns it as it was. Its messages stay. Rejects with NotFoundError. */
  async delete(name: string, limits: Limits = {}): Promise<ScheduleInfo> {
    return (await this.session().call("deleteSchedule", { name }, this.#asking(limits))).schedule!;
  }

  /** Produces its message now, also while it is paused. Its occurrences stay as they are. */
  async run(name: string, limits: Limits = {}): Promise<ScheduleInfo> {
    return (await this.session().call("runSchedule", { name }, this.#asking(limits))).schedule!;
  }

  async #pause(name: string, isPaused: boolean, limits: Limits): Promise<ScheduleInfo> {
    return (await this.session().call("pauseSchedule", { name, isPaused }, this.#asking(limits))).schedule!;
  }

  #asking(limits: Limits): Limits & { timeoutMs: number } {
    return { signal: limits.signal, timeoutMs: limits.timeoutMs ?? this.timeoutMs };
  }
}
