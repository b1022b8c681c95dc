/**
 * One request from submission to its result, over any number of attempts.
 *
 * A call has three results: a reply, so it is done; OutcomeUnknownError, so it may be done or not; any other error, so
 * it is certainly not done. Whether it may be retried follows from the request's effect.
 */

import { type Effect, type Operation, OPERATIONS, type Reply, type RequestFields } from "../codec/operations.js";
import {
  DeadlineError, FlotillaError, NotFoundError, NotLeaderError, OutcomeUnknownError, StorageFailedError,
  UnauthenticatedError, UnknownError,
} from "../errors.js";
import type { Link } from "./link.js";
import { ANY, CONTROLLER, type Route, routeTo } from "./routes.js";

/** A broker that lags behind may not know a new topic. NOT_FOUND is believed at this attempt. */
const NOT_FOUND_ATTEMPTS_MAX = 5;
const BACKOFF_FIRST_MS = 20;
const BACKOFF_MOST_MS = 500;

export interface CallOptions {
  deadlineMs: number;
  route?: Route;
  effect?: Effect;
  /** It is attempted only once. */
  isSingle?: boolean;
  attachment?: Uint8Array;
}

export type Result<O extends Operation> = Reply<O> | FlotillaError;

export class Call<O extends Operation = Operation> {
  readonly route: Route;
  readonly effect: Effect;
  readonly deadlineMs: number;
  readonly waitMs: number;
  /** It has many answers: `done` is called with each, until an error ends it or `Session.unsubscribe`. */
  readonly isStream: boolean;
  readonly attachment: Uint8Array | undefined;
  isSingle: boolean;
  isOver = false;
  /** The connection that it is sent on or waits for. */
  link: Link | undefined;
  isSent = false;
  correlationId = 0;
  /** From this time on the answer is due, and from that time on the broker is taken for dead. */
  dueMs = 0;
  answerByMs = 0;
  attempts = 0;
  lastError: FlotillaError | undefined;
  /** An attempt may have been carried out. */
  isUnsure = false;
  retry: NodeJS.Timeout | undefined;

  /** `done` is called exactly once, unless the call is cancelled or a stream. */
  constructor(
    readonly operation: O,
    readonly fields: RequestFields<O>,
    options: CallOptions,
    readonly done: (result: Result<O>) => void,
  ) {
    const row = OPERATIONS[operation];
    const named = fields as { topic?: string; partition?: number; partitions?: number[]; waitMs?: number };
    const partition = named.partition ?? named.partitions?.[0] ?? 0;
    const own = row.to === "any" ? ANY : row.to === "controller" ? CONTROLLER : routeTo(named.topic!, partition);
    this.route = options.route ?? own;
    this.effect = options.effect ?? row.effect;
    this.deadlineMs = options.deadlineMs;
    this.isStream = operation === "subscribe";
    this.waitMs = this.isStream ? Infinity : (named.waitMs ?? 0);
    this.attachment = options.attachment;
    this.isSingle = options.isSingle ?? false;
  }

  /** An attempt ended without a reply. */
  failed(error: FlotillaError, isUnsure: boolean): void {
    this.link = undefined;
    this.isSent = false;
    this.attempts++;
    this.lastError = error;
    const isUnclear =
      error instanceof OutcomeUnknownError || error instanceof StorageFailedError || error instanceof UnknownError;
    if (this.effect !== "read" && (isUnsure || isUnclear)) this.isUnsure = true;
  }

  /** Whether another attempt is allowed and can help. */
  mayRepeat(error: FlotillaError): boolean {
    if (this.effect === "once" && this.isUnsure) return false;
    if (error instanceof NotFoundError && !OPERATIONS[this.operation].retriesNotFound) return false;
    return isPassing(error, this.attempts);
  }

  finalError(error: FlotillaError): FlotillaError {
    return !this.isUnsure || error instanceof OutcomeUnknownError ? error : outcomeUnknown(error);
  }

  get isPerhapsDone(): boolean {
    return this.isUnsure || (this.isSent && this.effect !== "read");
  }

  overdue(): FlotillaError {
    if (!this.isPerhapsDone) return deadlinePassed(this.lastError);
    this.isUnsure = true;
    return outcomeUnknown(this.lastError);
  }
}

/** Whether the same request can succeed later. */
export function isPassing(error: FlotillaError, attempts: number): boolean {
  if (error instanceof NotFoundError || error instanceof UnauthenticatedError) return attempts < NOT_FOUND_ATTEMPTS_MAX;
  return error.retryable;
}

/**
 * The delay after this many attempts: doubling, half of it random, and at least as long as the broker asks for. A
 * redirect to a leader is followed at once, but only the first time: two brokers may name each other.
 */
export function backoffMs(attempts: number, error: FlotillaError): number {
  if (attempts === 1 && error instanceof NotLeaderError && error.address) return 0;
  const wholeMs = doubledMs(BACKOFF_FIRST_MS, attempts - 1, BACKOFF_MOST_MS);
  return Math.max(wholeMs * (0.5 + Math.random() / 2), error.retryAfterMs);
}

export function doubledMs(firstMs: number, doublings: number, mostMs: number): number {
  return Math.min(firstMs * 2 ** Math.min(doublings, 16), mostMs);
}

export function outcomeUnknown(cause: FlotillaError | undefined): OutcomeUnknownError {
  return new OutcomeUnknownError(`it may or may not have happened${because(cause)}`, { cause });
}

export function deadlinePassed(cause: FlotillaError | undefined): DeadlineError {
  return new DeadlineError(`not done in time, and nothing has happened${because(cause)}`, { cause });
}

function because(cause: FlotillaError | undefined): string {
  return cause ? `; the last attempt ended with ${cause.code}: ${cause.message}` : "; no answer came";
}
