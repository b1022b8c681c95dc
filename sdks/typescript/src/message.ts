/** One record as it is stored: the base of the messages of all consumers. */

import type { BatchView } from "./codec/batch-view.js";
import type { Headers } from "./codec/record.js";

/** (topic, partition, offset) identifies it for ever. */
export class Message {
  /** The bytes that were produced. A slice of what was fetched: copy it to keep it for long. */
  readonly payload: Buffer;
  readonly #view: BatchView;
  readonly #at: number;

  /** @internal */
  constructor(
    readonly topic: string,
    readonly partition: number,
    readonly offset: number,
    view: BatchView,
    at: number,
  ) {
    this.payload = view.payload(at);
    this.#view = view;
    this.#at = at;
  }

  /** undefined: no key. The empty key is a key like any other. */
  get key(): Buffer | undefined {
    return this.#view.key(this.#at);
  }

  /** Names and values in order; a name may occur more than once. */
  get headers(): Headers {
    return this.#view.headers(this.#at);
  }

  /** When the producer made it, in milliseconds since 1970. */
  get timestampMs(): number {
    return this.#view.timestampMs(this.#at);
  }

  /** 0 to 7; a higher one is delivered earlier. */
  get priority(): number {
    return this.#view.priority;
  }

  /** A ContentType, or a code of your own from 128 on. */
  get contentType(): number {
    return this.#view.contentType(this.#at);
  }

  /** When it was due, in milliseconds since 1970; 0: at once. */
  get deliverAtMs(): number {
    return this.#view.deliverAtMs;
  }

  /** The payload as UTF-8 text. */
  get text(): string {
    return this.payload.toString();
  }

  /** The payload read as JSON. Throws SyntaxError. */
  json<T = unknown>(): T {
    return JSON.parse(this.text) as T;
  }

  /** The first header of this name. All of them are in `headers`. */
  header(name: string): Buffer | undefined {
    return this.headers.find(([each]) => each === name)?.[1];
  }
}

/** All messages of a stored batch. */
export function messagesOf(topic: string, partition: number, view: BatchView): Message[] {
  const messages = new Array<Message>(view.count);
  for (let at = 0; at < view.count; at++) messages[at] = new Message(topic, partition, view.baseOffset + at, view, at);
  return messages;
}
