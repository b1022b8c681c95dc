/** The next time at which something is overdue, and its timer: one for all calls and connections of a session. */

import { steadyMs } from "./time.js";

export class Deadlines {
  // A lower bound of all deadlines.
  #nextMs = Infinity;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `scan` ends everything that is overdue, and calls `watch` for the rest. */
  constructor(private readonly scan: () => void) {}

  /** A scan is due at this time. */
  watch(whenMs: number): void {
    if (whenMs >= this.#nextMs || this.#isClosed) return;
    this.#nextMs = whenMs;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#nextMs = Infinity;
      this.scan();
    }, Math.max(whenMs - steadyMs(), 0) + 1);
  }

  /** Whether this time has come; if not, a scan is due then. */
  isOver(whenMs: number): boolean {
    if (whenMs > steadyMs()) this.watch(whenMs);
    return whenMs <= steadyMs();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }
}
