/**
 * Outcomes of leases, and the errors by which a handler chooses one.
 *
 * `Reject`, `Retry` and `Release` are decisions of the handler. Any other error is a failure: it counts as an attempt,
 * and its text is the reason.
 */

import { KIB, RESULT_BYTES_MAX } from "../codec/record.js";
import { InvalidArgumentError } from "../errors.js";

const REASON_CHARS_MAX = KIB;
/** The delay of a failure is left to the group's backoff. */
const BY_BACKOFF = -1;

export const ACK = 1;
export const RELEASE = 2;
export const FAIL = 3;
export const REJECT = 4;

/** How a lease ends. */
export interface Outcome {
  readonly kind: number;
  readonly reason: string;
  readonly delayMs: number;
  /** Of one acked message. */
  readonly result?: Uint8Array;
  /** False: it has a result that cannot be kept. */
  readonly isResultKept?: boolean;
}

export const ACKED: Outcome = { kind: ACK, reason: "", delayMs: BY_BACKOFF };
export const RELEASED: Outcome = { kind: RELEASE, reason: "", delayMs: 0 };

/** Thrown by a handler: the message can never succeed, and becomes a dead letter at once. */
export class Reject extends Error {
  constructor(readonly reason = "") {
    super(reason);
  }
}

/** Thrown by a handler: deliver the message again after `delayMs`, or the group's backoff. It counts as an attempt. */
export class Retry extends Error {
  constructor(readonly delayMs?: number, readonly reason = "") {
    super(reason);
    checkedDelay(delayMs);
  }
}

/** Thrown by a handler: deliver the message again after `delayMs`. It does not count as an attempt. */
export class Release extends Error {
  constructor(readonly delayMs = 0) {
    super();
    checkedDelay(delayMs);
  }
}

/** The outcome of a message whose handler threw this. */
export function outcomeOf(error: unknown): Outcome {
  if (error instanceof Reject) return rejected(error.reason);
  if (error instanceof Retry) return failed(error.reason, error.delayMs);
  if (error instanceof Release) return released(error.delayMs);
  return failed(error instanceof Error ? `${error.name}: ${error.message}` : String(error));
}

/** Throws InvalidArgumentError for a result that is too large. */
export function acked(result?: Uint8Array): Outcome {
  if (result === undefined) return ACKED;
  if (result.length > RESULT_BYTES_MAX) {
    throw new InvalidArgumentError(`a result has at most ${RESULT_BYTES_MAX} bytes, not ${result.length}`);
  }
  return { ...ACKED, result };
}

/** The outcome of a message whose handler returned: bytes are its result, anything else is ignored. */
export function returned(value: unknown): Outcome {
  if (!(value instanceof Uint8Array)) return ACKED;
  return value.length <= RESULT_BYTES_MAX ? acked(value) : { ...ACKED, result: new Uint8Array(), isResultKept: false };
}

export function failed(reason: string, delayMs?: number): Outcome {
  return { kind: FAIL, reason: cut(reason), delayMs: checkedDelay(delayMs) };
}

export function released(delayMs: number): Outcome {
  return { kind: RELEASE, reason: "", delayMs: checkedDelay(delayMs) };
}

export function rejected(reason: string): Outcome {
  return { kind: REJECT, reason: cut(reason), delayMs: BY_BACKOFF };
}

function cut(reason: string): string {
  return reason.length <= REASON_CHARS_MAX ? reason : `${reason.slice(0, REASON_CHARS_MAX - 1)}…`;
}

function checkedDelay(delayMs: number | undefined): number {
  if (delayMs === undefined) return BY_BACKOFF;
  if (!(delayMs >= 0)) throw new InvalidArgumentError(`delayMs is at least 0, not ${delayMs}`);
  return delayMs;
}
