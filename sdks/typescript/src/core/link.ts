/**
 * One connection to a broker, from dialling to its end.
 *
 *     greeting   Hello is in flight; nothing else may be sent
 *     log-in     where the broker asks who the client is, and the client has credentials
 *     open       requests may be sent up to the broker's bound, and are answered in any order
 *
 * A request whose caller was cancelled is forgotten, but counts until it is answered: the broker still works on it.
 */

import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

import { type Answer, decodeResponse, encodeRequest, FrameReader, NO_CORRELATION } from "../codec/frames.js";
import type { Plain } from "../codec/values.js";
import { FlotillaError, InvalidArgumentError, UnavailableError } from "../errors.js";
import type { Welcome } from "../generated/client_pb.js";
import type { Call } from "./call.js";
import { type Challenge, type CredentialsProvider, logIn, type Tls, tlsOptions } from "./credentials.js";
import type { Address } from "./routes.js";
import { steadyMs } from "./time.js";

const PROTOCOL_VERSION = 1;
const HELLO_ID = NO_CORRELATION + 1;

export interface LinkOptions {
  /** Name and version of the client, for operators of the broker. */
  name: string;
  tls: Tls | undefined;
  credentials: CredentialsProvider | undefined;
}

/** The session, as a link sees it. */
export interface LinkOwner {
  opened(link: Link): void;
  answered(link: Link, answers: [Call, unknown][]): void;
  /** The connection ended, or could not be made. */
  lost(link: Link, error: FlotillaError): void;
}

export class Link {
  /** Calls that wait for Welcome or for room, in order. */
  readonly queue = new Set<Call>();
  isOpen = false;
  /** The broker's Welcome. */
  welcome: Plain<Welcome> | undefined;
  /** When Hello was sent, and when the broker last sent anything, or was dialled. */
  greetedMs = steadyMs();
  heardMs = steadyMs();
  /** The highest metadata index that this broker has reported. */
  metadataIndex = 0;
  readonly #socket: Socket;
  readonly #frames = new FrameReader();
  // Calls by correlation id, in the order of sending; undefined: the request was forgotten.
  readonly #waiting = new Map<number, Call | undefined>();
  // Forgotten requests: since when their answer is due.
  readonly #orphans = new Map<number, number>();
  #nextId = HELLO_ID + 1;
  #isDialled = false;
  #isClosed = false;
  #challenged: ((challenge: Challenge) => void) | undefined;

  constructor(
    readonly address: Address,
    readonly openByMs: number,
    readonly options: LinkOptions,
    readonly owner: LinkOwner,
  ) {
    const { host, port } = parseAddress(address);
    this.#socket = options.tls ? connectTls({ host, port, ...tlsOptions(options.tls, host) }) : connect({ host, port });
    this.#socket.setNoDelay(true);
    this.#socket.once(options.tls ? "secureConnect" : "connect", () => this.#greet());
    this.#socket.on("data", (chunk: Buffer) => this.#received(chunk));
    let reason = "closed by the broker";
    this.#socket.on("error", (error: NodeJS.ErrnoException) => (reason = error.code ?? error.message));
    this.#socket.once("close", () => {
      const what = this.isOpen ? "was lost" : "cannot be made";
      this.#end(new UnavailableError(`the connection to ${address} ${what}: ${reason}`));
    });
  }

  // Requests.

  /** Another request may be sent now. One place is kept for a ping, if the broker allows more than one. */
  get hasRoom(): boolean {
    return this.isOpen && this.#waiting.size < Math.max(this.welcome!.requestsMax - 1, 1);
  }

  get hasRoomForPing(): boolean {
    return this.isOpen && this.#waiting.size < this.welcome!.requestsMax;
  }

  /** Sends a request, to be answered from metadata at least as new as the index. Throws InvalidArgumentError. */
  send(call: Call, metadataIndex: number): void {
    const needed = metadataIndex > this.metadataIndex ? metadataIndex : 0;
    const frame = encodeRequest(this.#nextId, call.operation, call.fields, needed, call.attachment);
    call.correlationId = this.#nextId++;
    this.#waiting.set(call.correlationId, call);
    this.#write(frame);
  }

  /** Drops the answer when it comes: its caller was cancelled. */
  forget(call: Call): void {
    this.queue.delete(call);
    if (!call.isSent || !this.#waiting.has(call.correlationId)) return;
    this.#waiting.set(call.correlationId, undefined);
    this.#orphans.set(call.correlationId, call.dueMs);
  }

  /** A subscription has ended at the broker: nothing more comes. */
  ended(call: Call): void {
    this.#waiting.delete(call.correlationId);
  }

  /** All unanswered requests that were not forgotten, in the order of sending. */
  sent(): Call[] {
    return [...this.#waiting.values()].filter((call) => call !== undefined);
  }

  /** Every call on this link that is not cancelled, sent or not. */
  calls(): Call[] {
    return [...this.sent(), ...this.queue];
  }

  /** Since when an answer is due and the broker has sent nothing; undefined: none will be, nothing is in flight. */
  get owedMs(): number | undefined {
    if (!this.isOpen) return this.heardMs;
    if (!this.#waiting.size) return undefined;
    let dueMs = Infinity;
    for (const orphanMs of this.#orphans.values()) dueMs = Math.min(dueMs, orphanMs);
    for (const call of this.#waiting.values()) if (call) dueMs = Math.min(dueMs, call.dueMs);
    return Math.max(dueMs, this.heardMs);
  }

  /** Why nothing came from an endpoint that accepts connections but does not welcome. */
  get silence(): UnavailableError | undefined {
    if (!this.#isDialled || this.isOpen) return undefined;
    return new UnavailableError(
      `${this.address} accepts connections but does not answer; is it the client port of a Flotilla broker?`,
    );
  }

  /** Ends the connection; nothing is reported any more. */
  close(): void {
    this.#isClosed = true;
    this.#socket.destroy();
  }

  // Bytes.

  #write(frame: Uint8Array[]): void {
    // Requests of one turn leave together.
    if (!this.#socket.writableCorked) {
      this.#socket.cork();
      queueMicrotask(() => this.#socket.uncork());
    }
    for (const piece of frame) this.#socket.write(piece);
  }

  #greet(): void {
    if (this.#isClosed) return;
    this.#isDialled = true;
    this.greetedMs = steadyMs();
    const hello = { versionMin: PROTOCOL_VERSION, versionMax: PROTOCOL_VERSION, client: this.options.name };
    this.#write(encodeRequest(HELLO_ID, "hello", hello));
  }

  #received(chunk: Buffer): void {
    if (this.#isClosed) return;
    this.heardMs = steadyMs();
    const answers: [Call, unknown][] = [];
    try {
      for (const frame of this.#frames.feed(chunk)) this.#take(decodeResponse(frame), answers);
    } catch (error) {
      // What came in front of the refusal counts.
      if (answers.length) this.owner.answered(this, answers);
      this.#refused(error as FlotillaError);
      return;
    }
    if (answers.length) this.owner.answered(this, answers);
  }

  #take(answer: Answer, answers: [Call, unknown][]): void {
    const { correlationId, value } = answer;
    this.metadataIndex = Math.max(this.metadataIndex, answer.metadataIndex);
    if (correlationId === NO_CORRELATION || !this.isOpen) {
      this.#converse(answer);
      return;
    }
    if (!this.#waiting.has(correlationId)) {
      throw new InvalidArgumentError(`the broker answers request ${correlationId}, which was not made`);
    }
    const call = this.#waiting.get(correlationId);
    // A subscription goes on.
    if (answer.name !== "pushed") {
      this.#waiting.delete(correlationId);
      this.#orphans.delete(correlationId);
    }
    if (call) answers.push([call, value instanceof FlotillaError ? value : { name: answer.name, value }]);
  }

  #converse({ name, value }: Answer): void {
    if (value instanceof FlotillaError) throw value;
    if (name === "challenge" && this.#challenged) {
      this.#challenged(value as Challenge);
      return;
    }
    if (name !== "welcome" || this.welcome) {
      throw new InvalidArgumentError("the broker does not answer Hello with Welcome");
    }
    const welcome = value as Plain<Welcome>;
    if (welcome.version !== PROTOCOL_VERSION || welcome.requestsMax < 1) {
      throw new InvalidArgumentError(`the broker chose protocol version ${welcome.version}`);
    }
    this.welcome = welcome;
    if (welcome.mechanisms.length && this.options.credentials) void this.#logIn(this.options.credentials);
    else this.#open();
  }

  async #logIn(provider: CredentialsProvider): Promise<void> {
    try {
      const steps = logIn(await provider(), this.welcome!.mechanisms);
      let step = await steps.next();
      while (!step.done) {
        const challenge = new Promise<Challenge>((resolve) => (this.#challenged = resolve));
        if (this.#isClosed) return;
        this.#write(encodeRequest(this.#nextId++, "authenticate", step.value));
        step = await steps.next(await challenge);
      }
      this.#challenged = undefined;
      if (!this.#isClosed) this.#open();
    } catch (error) {
      if (!this.#isClosed) this.#refused(error as FlotillaError);
    }
  }

  #open(): void {
    this.isOpen = true;
    this.owner.opened(this);
  }

  #refused(error: FlotillaError): void {
    const isStranger = !this.welcome && error instanceof InvalidArgumentError;
    this.#end(
      isStranger
        ? new UnavailableError(`something that is not a Flotilla broker answers at ${this.address}`)
        : error,
    );
  }

  #end(error: FlotillaError): void {
    if (this.#isClosed) return;
    this.close();
    this.owner.lost(this, error);
  }
}

/** Throws InvalidArgumentError. */
export function parseAddress(address: Address): { host: string; port: number } {
  const found = /^(?:\[([^\]]+)\]|([^:\s/]+)):(\d{1,5})$/.exec(address);
  const port = Number(found?.[3]);
  if (!found || port > 65_535) throw new InvalidArgumentError(`${address} is not host:port`);
  return { host: (found[1] ?? found[2])!, port };
}
