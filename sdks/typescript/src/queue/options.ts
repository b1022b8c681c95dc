/** Options of a queue consumer, and its prefetch window. */

import { MIB } from "../codec/record.js";
import { InvalidArgumentError } from "../errors.js";
import { atLeast, type Filter, readFilter, readStart, type StartAt, takesAll, type WireFilter } from "../filter.js";

const WINDOW_MIN = 16;
const WINDOW_MAX = 1_024;
const SPAN_MS = 100;

export interface QueueSettings extends Filter {
  /** Where a new group begins; by default "earliest". A group that exists goes on where it was. */
  start?: StartAt;
  partitions?: readonly number[];
  /** How long a lease lasts without a renewal; by default as the group is set. */
  visibilityMs?: number;
  /** Unsettled messages that an iteration may hold. By default it adapts to the speed of the handler, from 16 on. */
  prefetch?: number;
  /** False: an iteration asks for messages only when it has none left, not ahead of that. */
  push?: boolean;
  /**
   * How messages come: "poll", the client asks each leader for as many as it has room for; "push", it subscribes at each
   * leader, which sends messages within the credit that the client gives back as it settles them.
   */
  delivery?: "poll" | "push";
  /**
   * "auto": the broker acknowledges a message before it sends it, and never delivers it twice. Messages that were sent
   * ahead and are not taken before the process ends are lost.
   */
  ackMode?: "manual" | "auto";
  /** "key": messages of one key go to one member at a time, in their order. That is a setting of the group. */
  ordered?: "none" | "key";
  /** For how long unsettled messages are renewed by themselves; one hour. */
  leaseMsMax?: number;
  /** Of one answer; 8 MiB. */
  fetchBytes?: number;
  timeoutMs?: number;
  /** Ends an iteration with its reason. */
  signal?: AbortSignal;
}

export interface QueueOptions {
  start: { kind: number; value: number };
  partitions: number[] | undefined;
  filter: WireFilter;
  /** 0: as the group is set. */
  visibilityMs: number;
  prefetch: number | undefined;
  /** An iteration asks before it has no messages left. */
  asksAhead: boolean;
  isPushed: boolean;
  isAutoAck: boolean;
  isOrderedByKey: boolean;
  leaseMsMax: number;
  fetchBytes: number;
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

/** Throws InvalidArgumentError. */
export function queueOptions(settings: QueueSettings, timeoutMs: number): QueueOptions {
  const filter = readFilter(settings);
  const isOrderedByKey = settings.ordered === "key";
  if (isOrderedByKey && !takesAll(filter)) {
    throw new InvalidArgumentError("a consumer has a filter or orders by key, not both");
  }
  if (settings.delivery === "push" && settings.push === false) {
    throw new InvalidArgumentError("messages that are pushed come ahead: push: false goes with polls only");
  }
  return {
    start: readStart(settings.start),
    partitions: settings.partitions && [...new Set(settings.partitions)],
    filter,
    visibilityMs: settings.visibilityMs === undefined ? 0 : atLeast(1, "visibilityMs", settings.visibilityMs),
    prefetch: settings.prefetch === undefined ? undefined : atLeast(1, "prefetch", settings.prefetch),
    asksAhead: settings.push ?? true,
    isPushed: settings.delivery === "push",
    isAutoAck: settings.ackMode === "auto",
    isOrderedByKey,
    leaseMsMax: atLeast(1, "leaseMsMax", settings.leaseMsMax ?? 3_600_000),
    fetchBytes: atLeast(1, "fetchBytes", settings.fetchBytes ?? 8 * MIB),
    timeoutMs: atLeast(1, "timeoutMs", settings.timeoutMs ?? timeoutMs),
    signal: settings.signal,
  };
}

/**
 * How many messages an iterating consumer holds, those in handlers included. A slow handler should hold few; but small
 * polls cost a quick one most of its time. So the window begins small, doubles when all of it was handled within a span,
 * and shrinks at the end of a span to twice the messages handled in it. A window that the application chose is fixed.
 */
export class PrefetchWindow {
  size: number;
  readonly #isFixed: boolean;
  #sinceMs: number;
  #handled = 0;

  constructor(options: QueueOptions, nowMs: number) {
    // Messages that are acknowledged on delivery are lost with this process: few are prefetched.
    this.#isFixed = options.prefetch !== undefined || options.isAutoAck;
    this.size = options.prefetch ?? WINDOW_MIN;
    this.#sinceMs = nowMs;
  }

  /** Adapts to the count of messages handled since the consumer began. True: the window has shrunk. */
  follow(handled: number, nowMs: number): boolean {
    if (this.#isFixed) return false;
    const count = handled - this.#handled;
    const passedMs = nowMs - this.#sinceMs;
    const before = this.size;
    if (passedMs >= SPAN_MS) this.size = Math.max(WINDOW_MIN, Math.min(before, Math.floor((2 * count * SPAN_MS) / passedMs)));
    else if (count >= before) this.size = Math.min(2 * before, WINDOW_MAX);
    else return false;
    this.#sinceMs = nowMs;
    this.#handled = handled;
    return this.size < before;
  }
}
