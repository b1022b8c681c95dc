/** Waits for the results of messages: callers of one partition and group share a long poll. */

import type { Reply } from "../codec/operations.js";
import type { Call } from "../core/call.js";
import type { Session } from "../core/session.js";
import { deferred, type Deferred, sleep, steadyMs, unlessAborted } from "../core/time.js";
import { DeadlineError, FlotillaError, ForgottenError, MessageFailedError, OffsetOutOfRangeError } from "../errors.js";
import type { Receipt } from "../producer/pending-batch.js";

const LONG_POLL_MS = 5_000;
/** Beyond the wait of a long poll, for its answer. */
const ANSWER_MS = 10_000;
/** Messages whose results one request waits for. */
const OFFSETS_MAX = 1_024;

type Ended = Reply<"readResults">["ended"][number];

/** The callers of one partition and group. */
interface Waiting {
  callers: Map<number, Set<Deferred<Ended>>>;
  call: Call<"readResults"> | undefined;
  isDue: boolean;
}

export class ResultWaits {
  readonly #places = new Map<string, Waiting>();

  constructor(readonly session: Session) {}

  /** The result of a message; empty if it was acked without one. Throws MessageFailedError, ForgottenError, DeadlineError. */
  async wait(receipt: Receipt, group: string, timeoutMs: number, signal?: AbortSignal): Promise<Buffer> {
    const key = `${receipt.topic}/${receipt.topicId}/${receipt.partition}/${group}`;
    let waiting = this.#places.get(key);
    if (!waiting) this.#places.set(key, (waiting = { callers: new Map(), call: undefined, isDue: false }));
    const { callers } = waiting;
    const answer = deferred<Ended>();
    const others = callers.get(receipt.offset) ?? new Set();
    callers.set(receipt.offset, others.add(answer));
    this.#readSoon(key, waiting, receipt, group);
    const ending = new AbortController();
    try {
      const late = sleep(timeoutMs, ending.signal).catch(() => undefined);
      const ended = await unlessAborted(Promise.race([answer.promise, late]), signal);
      if (!ended) throw new DeadlineError(`${named(receipt, group)} has not ended within ${timeoutMs} ms`);
      return resultOf(receipt, group, ended);
    } finally {
      ending.abort();
      answer.promise.catch(() => undefined);
      others.delete(answer);
      if (!others.size) callers.delete(receipt.offset);
      if (!callers.size) {
        this.#places.delete(key);
        if (waiting.call) this.session.withdraw(waiting.call);
      }
    }
  }

  /** Asks for all callers at once, in place of the long poll that does not know the newest. */
  #readSoon(key: string, waiting: Waiting, receipt: Receipt, group: string): void {
    if (waiting.isDue) return;
    waiting.isDue = true;
    queueMicrotask(() => {
      waiting.isDue = false;
      if (this.#places.get(key) !== waiting) return;
      if (waiting.call) this.session.withdraw(waiting.call);
      const { topic, topicId, partition } = receipt;
      const offsets = [...waiting.callers.keys()].slice(0, OFFSETS_MAX);
      const fields = { topic, topicId, partition, group, offsets, waitMs: LONG_POLL_MS };
      const options = { deadlineMs: steadyMs() + LONG_POLL_MS + ANSWER_MS };
      const call = this.session.submit("readResults", fields, options, (result) => {
        if (waiting.call === call) waiting.call = undefined;
        if (!(result instanceof FlotillaError)) {
          for (const ended of result.ended) for (const each of waiting.callers.get(ended.offset) ?? []) each.resolve(ended);
        } else if (!(result instanceof DeadlineError)) {
          // The client has retried as long as that can help. Without an answer it goes on: callers have limits.
          for (const offset of offsets) for (const each of waiting.callers.get(offset) ?? []) each.reject(result);
        }
        if (!waiting.call) setImmediate(() => this.#readSoon(key, waiting, receipt, group));
      });
      waiting.call = call;
    });
  }
}

function named(receipt: Receipt, group: string): string {
  return `message ${receipt.offset} of partition ${receipt.partition} of ${receipt.topic}, group ${group}`;
}

function resultOf(receipt: Receipt, group: string, ended: Ended): Buffer {
  if (ended.state === "acked") return Buffer.from(ended.result);
  const name = named(receipt, group);
  if (!ended.state) throw new OffsetOutOfRangeError(`${name}: there is no such message`);
  if (ended.state === "forgotten") throw new ForgottenError(`${name}: ${ended.reason}`);
  const error = new MessageFailedError(`${name} is ${ended.state}${ended.reason ? `: ${ended.reason}` : ""}`);
  error.state = ended.state;
  error.reason = ended.reason;
  error.attempts = ended.attempts;
  throw error;
}
