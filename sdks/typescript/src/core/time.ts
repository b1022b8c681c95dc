/** Time: a clock that never jumps, limits, and waits that an AbortSignal ends. */

/** Milliseconds of a clock that never jumps. */
export function steadyMs(): number {
  return performance.now();
}

/** Options of every call. */
export interface Limits {
  /** By default the client's. */
  timeoutMs?: number;
  /** Ends the wait with its reason. What was sent may still happen. */
  signal?: AbortSignal;
}

/** The time left of a limit that several steps share. */
export class TimeLimit {
  readonly #deadlineMs: number;

  constructor(timeoutMs: number) {
    this.#deadlineMs = steadyMs() + timeoutMs;
  }

  get leftMs(): number {
    return Math.max(this.#deadlineMs - steadyMs(), 0);
  }
}

/** A promise, and what decides it. */
export interface Deferred<T> {
  promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

export function deferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** Rejects with the signal's reason as soon as it is aborted; `aborted` is called then. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined, aborted?: () => void): Promise<T> {
  if (!signal) return promise;
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => {
      aborted?.();
      reject(signal.reason);
    };
    if (signal.aborted) {
      promise.catch(() => undefined);
      abort();
      return;
    }
    signal.addEventListener("abort", abort, { once: true });
    promise.finally(() => signal.removeEventListener("abort", abort)).then(resolve, reject);
  });
}

/**
 * The close of an object, which runs once. The first caller gets its error; a caller that comes meanwhile waits for the
 * end, so that no connection is closed under it.
 */
export class Closing {
  #running: Promise<void> | undefined;

  get isBegun(): boolean {
    return this.#running !== undefined;
  }

  run(close: () => Promise<void>, signal?: AbortSignal): Promise<void> {
    if (this.#running) return unlessAborted(this.#running.catch(() => undefined), signal);
    // `close` begins in this turn, and finds that it has begun.
    const begun = deferred<void>();
    this.#running = begun.promise;
    close().then(begun.resolve, begun.reject);
    return unlessAborted(begun.promise, signal);
  }
}

/** Work that is done once at the end of a turn, when all is added that this turn will add. */
export class AtEndOfTurn {
  #isScheduled = false;

  constructor(private readonly work: () => void) {}

  schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.work();
    });
  }
}

/** Wakes waiters: news stay until somebody has looked. */
export class News {
  #isSet = false;
  #waiters = new Set<() => void>();

  set(): void {
    this.#isSet = true;
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const wake of waiters) wake();
  }

  clear(): void {
    this.#isSet = false;
  }

  /** Until there are news, or a while; the caller looks again. Rejects when the signal is aborted. */
  wait(waitMs: number, signal?: AbortSignal): Promise<void> {
    if (this.#isSet) return Promise.resolve();
    let timer: NodeJS.Timeout | undefined;
    let wake!: () => void;
    const promise = new Promise<void>((resolve) => {
      wake = resolve;
      this.#waiters.add(resolve);
      if (waitMs !== Infinity) timer = setTimeout(resolve, Math.max(waitMs, 0));
    });
    return unlessAborted(promise, signal).finally(() => {
      clearTimeout(timer);
      this.#waiters.delete(wake);
    });
  }
}

export function sleep(waitMs: number, signal?: AbortSignal): Promise<void> {
  return new News().wait(waitMs, signal);
}
