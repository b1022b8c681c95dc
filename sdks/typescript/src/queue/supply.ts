/** What brings messages to an iterating consumer: polls, or subscriptions. */

export interface Supply {
  /** Nothing is in flight any more. */
  readonly isIdle: boolean;
  /** Some leaders have not said yet whether they have messages. */
  readonly isSearching: boolean;
  /** When to call `fill` again, if nothing happens before. */
  readonly nextMs: number;
  /**
   * Asks for messages: `free` more than the consumer holds, of a window of `size`. `ready`: how many were not taken yet.
   * True: `nextMs` counts.
   */
  fill(free: number, size: number, ready: number): boolean;
  /** Ends it. Messages that are leased by then still arrive. */
  withdraw(): void;
}
