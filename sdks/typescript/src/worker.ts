/**
 * A worker: runs a handler for the messages of a queue group, a bounded number at a time, until it is stopped.
 *
 * When the handler returns, its message is acknowledged; bytes that it returns are the message's result. When it throws,
 * the attempt failed, with the error as the reason; `Reject`, `Retry` and `Release` choose another outcome. Leases are
 * renewed while handlers run.
 *
 * Stopping is a drain: the worker leases nothing more, gives back messages that were not started, and waits for running
 * handlers up to `drainMs`. Then the signal of the others is aborted, and their messages are released, which does not
 * count as an attempt. With `ackMode: "auto"` messages that were not started cannot be given back: the drain handles them
 * too, and what it does not come to is lost.
 */

import { sleep, unlessAborted } from "./core/time.js";
import { FlotillaError, InvalidArgumentError } from "./errors.js";
import type { QueueMessage } from "./queue/message.js";
import type { QueueSettings } from "./queue/options.js";
import { FAIL, outcomeOf, REJECT, RELEASED, returned } from "./queue/outcome.js";
import type { Queue } from "./queue/queue.js";

/** `signal` is aborted when the worker stops waiting for the handler. */
export type Handler = (message: QueueMessage, signal: AbortSignal) => unknown;

export interface WorkerSettings extends QueueSettings {
  /** Handlers that run at a time; 16. */
  concurrency?: number;
  /** How long a stop waits for running handlers; 30 s. */
  drainMs?: number;
  /** Called when a handler has failed. */
  onError?: (message: QueueMessage, error: unknown) => void;
  /** Called when a handler has thrown Reject. */
  onReject?: (message: QueueMessage, error: unknown) => void;
  /** Called with errors of the cluster that the worker waits out. */
  onTrouble?: (error: FlotillaError) => void;
  /** Aborting it stops the worker, as `stop` does. */
  signal?: AbortSignal;
}

/** After an error of the cluster, before messages are asked for again. */
const PAUSE_MS = 1_000;
/** Errors that do not pass: the worker ends with them. */
const FATAL = new Set([
  "GROUP_MODE", "INVALID_ARGUMENT", "NOT_FOUND", "CONNECTION_CLOSED", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNSUPPORTED",
]);
/** The longest time of a timer. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Made by `Client.worker`: it runs until `stop`. */
export class Worker {
  /** Messages whose handler has ended; of these, failed attempts (Retry included), and rejected messages. */
  handledCount = 0;
  failedCount = 0;
  rejectedCount = 0;
  /** Settles when the worker has stopped; rejects with an error that does not pass. */
  readonly done: Promise<void>;
  readonly #queue: Queue;
  readonly #settings: WorkerSettings;
  readonly #running = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #giveUp = new AbortController();

  /** @internal */
  constructor(queue: Queue, private readonly handler: Handler, settings: WorkerSettings) {
    this.#queue = queue;
    this.#settings = settings;
    const { concurrency = 16, drainMs = 0 } = settings;
    if (!(concurrency >= 1) || !(drainMs >= 0)) {
      throw new InvalidArgumentError("concurrency is at least 1, and drainMs at least 0");
    }
    if (typeof handler !== "function") throw new InvalidArgumentError("a handler is a function that takes a message");
    settings.signal?.addEventListener("abort", () => void this.stop(), { once: true });
    if (settings.signal?.aborted) this.#stopping.abort();
    this.done = this.#work(concurrency);
    // An error that nobody awaits is not an unhandled rejection until `stop` or `done` is asked for.
    this.done.catch(() => undefined);
  }

  /** Handlers that are running. */
  get runningCount(): number {
    return this.#running.size;
  }

  /** Begins the drain, and resolves when it is over; `signal` ends that wait, not the drain. */
  stop({ signal }: { signal?: AbortSignal } = {}): Promise<void> {
    this.#stopping.abort();
    return unlessAborted(this.done, signal);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #work(concurrency: number): Promise<void> {
    const { signal } = this.#stopping;
    let fatal: unknown;
    try {
      while (await this.#begin(concurrency, signal));
    } catch (error) {
      if (error !== signal.reason) fatal = error;
    }
    await this.#drain(concurrency);
    if (fatal !== undefined) throw fatal;
  }

  /** Begins to handle the next message, when there is room. False: no message comes any more. */
  async #begin(concurrency: number, signal: AbortSignal): Promise<boolean> {
    while (this.#running.size >= concurrency) await unlessAborted(Promise.race(this.#running), signal);
    const message = await this.#next(signal);
    if (!message) return false;
    const handled: Promise<void> = this.#handle(message).finally(() => this.#running.delete(handled));
    this.#running.add(handled);
    return true;
  }

  /** The next message, however long that takes; errors of the cluster are reported and waited out. */
  async #next(signal: AbortSignal): Promise<QueueMessage | undefined> {
    for (;;) {
      try {
        return await this.#queue.next(signal);
      } catch (error) {
        if (!(error instanceof FlotillaError) || FATAL.has(error.code)) throw error;
        this.#settings.onTrouble?.(error);
        if (error.retryable) await sleep(PAUSE_MS, signal);
      }
    }
  }

  async #handle(message: QueueMessage): Promise<void> {
    let outcome;
    try {
      outcome = returned(await this.handler(message, this.#giveUp.signal));
    } catch (error) {
      outcome = this.#giveUp.signal.aborted ? RELEASED : outcomeOf(error);
      if (outcome.kind === FAIL) this.failedCount++;
      if (outcome.kind === REJECT) this.rejectedCount++;
      const hook = { [FAIL]: this.#settings.onError, [REJECT]: this.#settings.onReject }[outcome.kind];
      try {
        hook?.(message, error);
      } catch (failure) {
        process.emitWarning(`a hook of the worker of ${message.topic} failed: ${String(failure)}`);
      }
    }
    this.handledCount++;
    if (!message.isSettled) await message.owner.settle([message], outcome, { wait: false });
  }

  async #drain(concurrency: number): Promise<void> {
    const { ackMode, drainMs = 30_000 } = this.#settings;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), Math.min(drainMs, TIMER_MS_MAX));
    const closing = this.#queue.close({ drainMs });
    const handling = this.#handleRest(ackMode === "auto" ? concurrency : 0, late.signal);
    const outcomes = await Promise.allSettled([handling, closing]);
    clearTimeout(timer);
    this.#giveUp.abort();
    for (const outcome of outcomes) {
      if (outcome.status === "fulfilled" || outcome.reason === late.signal.reason) continue;
      if (!(outcome.reason instanceof FlotillaError)) throw outcome.reason;
      this.#settings.onTrouble?.(outcome.reason);
    }
  }

  /** Handles what the brokers have sent and cannot take back, and waits for all handlers. 0: they can take it back. */
  async #handleRest(concurrency: number, signal: AbortSignal): Promise<void> {
    if (concurrency) while (await this.#begin(concurrency, signal));
    await unlessAborted(Promise.allSettled(this.#running), signal);
  }
}
