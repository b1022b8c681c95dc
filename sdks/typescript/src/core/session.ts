/**
 * The client's side of a cluster: keeps one connection per broker, sends each call to its broker, and retries it until
 * its deadline as far as its effect allows. Leaders that are not known are found by the search (leader-search), brokers
 * that are silent are left by the watch (silence). A long poll at a broker that no longer leads ends as soon as the new
 * leader is known.
 *
 * A call is in `#calls` from `submit` until its result is decided. Results are passed on in a microtask, when the state
 * is consistent again, so that `done` may submit the next call.
 */

import { randomBytes } from "node:crypto";

import type { Operation, Reply, RequestFields } from "../codec/operations.js";
import { OPERATIONS } from "../codec/operations.js";
import {
  ConnectionClosedError, FlotillaError, InvalidArgumentError, NotFoundError, NotLeaderError, ReplicaBehindError,
  UnauthenticatedError, UnavailableError, UnknownError,
} from "../errors.js";
import { backoffMs, Call, type CallOptions, outcomeUnknown, type Result } from "./call.js";
import { Deadlines } from "./deadlines.js";
import { ANSWER_MS_MAX, LeaderSearch, noTopic, type SearchOwner, SUSPECT_MS } from "./leader-search.js";
import { Link, type LinkOptions, type LinkOwner } from "./link.js";
import { type Address, ANY, CONTROLLER, type Metadata, type Route, Routes, type Topic } from "./routes.js";
import { ignore, PING_MS, type SilenceOwner, SilenceWatch } from "./silence.js";
import { deferred, type Limits, steadyMs, unlessAborted } from "./time.js";

/** From dialling to Welcome. */
const CONNECT_MS_MAX = 5_000;

type AnyCall = Call;

/** Who is told what happens to connections and leaders. */
export interface SessionWatcher {
  /** The connection to this address has ended. */
  linkLost(address: Address): void;
  /** Some routes have another leader. */
  leadersMoved(): void;
}

export class Session implements LinkOwner, SearchOwner, SilenceOwner {
  readonly routes: Routes;
  /** The name by which brokers know that this process is gone: its undecided transactions end with it. */
  readonly member = `client-${randomBytes(8).toString("hex")}`;
  isClosed = false;
  /** How far the brokers' clock is ahead of ours, at the most, as the last Welcome said. */
  clockAheadMs = 0;
  readonly watchers = new Set<SessionWatcher>();
  /** Of calls and connections. */
  readonly deadlines = new Deadlines(() => this.#scan());
  readonly #links = new Map<Address, Link>();
  readonly #calls = new Set<AnyCall>();
  readonly #search = new LeaderSearch(this);
  readonly #silence = new SilenceWatch(this);
  #results: [AnyCall, unknown][] = [];
  #isSettling = false;
  // The newest metadata that were seen, over all connections: nothing older is wanted from any broker.
  #seenIndex = 0;
  #clusterId = "";

  constructor(bootstrap: Address[], readonly options: LinkOptions) {
    this.routes = new Routes(bootstrap);
  }

  // For callers.

  /** Makes a call. Rejects with FlotillaError, or with the reason of an aborted signal. */
  call<O extends Operation>(
    operation: O,
    fields: RequestFields<O>,
    limits: Limits & { timeoutMs: number } & Omit<CallOptions, "deadlineMs">,
  ): Promise<Reply<O>> {
    limits.signal?.throwIfAborted();
    const answer = deferred<Reply<O>>();
    const options = { ...limits, deadlineMs: steadyMs() + Math.max(limits.timeoutMs, 1) };
    const call = this.submit(operation, fields, options, (result) =>
      result instanceof FlotillaError ? answer.reject(result) : answer.resolve(result),
    );
    return unlessAborted(answer.promise, limits.signal, () => this.cancel(call));
  }

  /** Starts a call; `done` is called once, by its deadline at the latest; for a subscription, with every push. */
  submit<O extends Operation>(
    operation: O,
    fields: RequestFields<O>,
    options: CallOptions,
    done: (result: Result<O>) => void,
  ): Call<O> {
    const call = new Call(operation, fields, options, done);
    if (this.isClosed) this.#finish(call as unknown as AnyCall, new ConnectionClosedError("the client is closed"));
    else this.#start(call as unknown as AnyCall);
    return call;
  }

  #start(call: AnyCall): void {
    this.#calls.add(call);
    this.deadlines.watch(call.deadlineMs);
    this.#attempt(call);
  }

  /** Drops a call: `done` is not called. A broker may still carry it out. */
  cancel<O extends Operation>(given: Call<O>): void {
    const call = given as unknown as AnyCall;
    this.#release(call);
    call.isOver = true;
  }

  /**
   * Ends the wait of a long poll. True: its answer comes soon, with the messages that it has leased by then. False: no
   * broker has it, and `done` is not called.
   */
  withdraw<O extends Operation>(given: Call<O>): boolean {
    const call = given as unknown as AnyCall;
    if (!this.#calls.has(call)) return !call.isOver;
    if (!call.link || !call.isSent) {
      this.cancel(call);
      return false;
    }
    call.isSingle = true;
    this.#endWait(call, call.link);
    return true;
  }

  /** Asks the broker to answer a long poll now. */
  #endWait(call: AnyCall, link: Link): void {
    call.dueMs = Math.min(call.dueMs, steadyMs());
    this.#steer(link, call.route, "withdraw", { request: call.correlationId }, ignore);
  }

  /** Adds credit to a subscription that has been answered, for so many messages and for bytes. */
  addCredit(call: Call<"subscribe">, messages: number): void {
    if (call.link) this.#steer(call.link, call.route, "addCredit", { subscription: call.correlationId, messages }, ignore);
  }

  /**
   * Ends a subscription; `ended` is called when all has come that was pushed before. If the connection is lost meanwhile,
   * `done` of the subscription is called with the error instead.
   */
  unsubscribe(call: Call<"subscribe">, ended: () => void): void {
    const given = call as unknown as AnyCall;
    if (!this.#calls.has(given)) return;
    const { link } = call;
    if (!link || !call.isSent) {
      this.cancel(call);
      queueMicrotask(ended);
      return;
    }
    this.#steer(link, call.route, "unsubscribe", { subscription: call.correlationId }, (result) => {
      if (result instanceof FlotillaError) return;
      link.ended(given);
      this.cancel(call);
      ended();
    });
  }

  /** Sends a request about another one on its connection. */
  #steer<O extends Operation>(
    link: Link, route: Route, operation: O, fields: RequestFields<O>, done: (result: Result<O>) => void,
  ): void {
    const call = new Call(operation, fields, { deadlineMs: steadyMs() + ANSWER_MS_MAX, route, isSingle: true }, done);
    this.startAt(call as unknown as AnyCall, link.address);
  }

  /** Describes a topic. With `create` a missing one is created, if the cluster allows that. Throws NotFoundError. */
  async topic(name: string, limits: Limits & { timeoutMs: number }, create = false): Promise<Topic> {
    const old = this.routes.topics.get(name);
    if (old && (this.routes.describedAt.get(name) ?? 0) >= this.#seenIndex) return old;
    const fields = { topics: [name], create };
    let found: Metadata;
    try {
      found = await this.call("getMetadata", fields, limits).catch((error: unknown) => {
        if (error instanceof NotFoundError) return undefined;
        throw error;
      }) as Metadata;
      // A broker may lag behind; a topic that the controller does not know does not exist.
      if (!found?.topics.length) found = await this.call("getMetadata", fields, { ...limits, route: CONTROLLER });
    } catch (error) {
      if (error instanceof NotFoundError) throw noTopic(name);
      // An old description is better than none.
      if (error instanceof FlotillaError && old) return old;
      throw error;
    }
    this.routes.update(found, [name]);
    const topic = this.routes.topics.get(name);
    if (!topic) throw noTopic(name);
    return topic;
  }

  hasOpenLink(address: Address): boolean {
    return this.#links.get(address)?.isOpen ?? false;
  }

  /** Ends every call with its result, and every connection. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.deadlines.close();
    this.#search.close();
    for (const link of this.#links.values()) link.close();
    const error = new ConnectionClosedError("the client was closed before an answer came");
    for (const call of [...this.#calls]) {
      call.isUnsure = call.isPerhapsDone;
      this.#finish(call, call.isUnsure ? outcomeUnknown(error) : error);
    }
    this.#links.clear();
  }

  // For links.

  opened(link: Link): void {
    const welcome = link.welcome!;
    const nowMs = steadyMs();
    this.routes.heard(link.address);
    this.routes.measured(link.address, nowMs - link.greetedMs);
    if (welcome.clusterId && welcome.clusterId !== this.#clusterId) {
      // The index belongs to one cluster: it begins anew with another one at the same addresses.
      this.#clusterId = welcome.clusterId;
      this.#seenIndex = 0;
    }
    if (welcome.timeMs) {
      // The broker read its clock between Hello and Welcome: the difference is known up to that round trip.
      const leastMs = welcome.timeMs - Date.now() - 1;
      const mostMs = leastMs + 2 + (nowMs - link.greetedMs);
      this.clockAheadMs = leastMs <= 0 && mostMs >= 0 ? 0 : Math.ceil(mostMs);
    }
    this.#seenIndex = Math.max(this.#seenIndex, link.metadataIndex);
    this.#sendQueued(link);
  }

  answered(link: Link, answers: [AnyCall, unknown][]): void {
    this.#seenIndex = Math.max(this.#seenIndex, link.metadataIndex);
    this.routes.heard(link.address);
    for (const [call, answer] of answers) this.#answered(link, call, answer);
    if (link.queue.size) this.#sendQueued(link);
    if (this.routes.moved.size) this.#settleSoon();
  }

  lost(link: Link, error: FlotillaError): void {
    this.drop(link, refused(link.address, error));
  }

  // Routing.

  #attempt(call: AnyCall): void {
    if (!this.#calls.has(call)) return;
    const address = call.route === ANY ? this.anyAddress(call) : this.routes.find(call.route);
    if (address === undefined) this.#search.add(call);
    else this.assign(call, address);
  }

  /** The best one, and another one for a call to which the last one knew too little, or had no cluster. */
  anyAddress(call: AnyCall): Address {
    const askable = this.askable();
    const isIgnorant = call.lastError instanceof ReplicaBehindError || call.lastError instanceof UnavailableError;
    return askable[isIgnorant ? call.attempts % askable.length : 0]!;
  }

  /** All addresses, in the order in which to ask them for metadata. */
  askable(): Address[] {
    const open = [...this.#links.values()].filter((link) => link.isOpen).map((link) => link.address);
    const all = [...new Set([...open, ...this.routes.candidates()])];
    const { suspects } = this.routes;
    return [...all.filter((each) => !suspects.has(each)), ...all.filter((each) => suspects.has(each))];
  }

  assign(call: AnyCall, address: Address): void {
    let link = this.#links.get(address);
    if (!link) {
      try {
        link = new Link(address, steadyMs() + CONNECT_MS_MAX, this.options, this);
      } catch (error) {
        this.#finish(call, asFlotilla(error));
        return;
      }
      this.#links.set(address, link);
      this.deadlines.watch(steadyMs() + SUSPECT_MS);
    }
    call.link = link;
    link.queue.add(call);
    this.#sendQueued(link);
    if (this.routes.suspects.has(address)) this.inquire();
  }

  #sendQueued(link: Link): void {
    for (const call of link.queue) {
      if (!link.hasRoom) return;
      link.queue.delete(call);
      this.#send(link, call);
    }
  }

  #send(link: Link, call: AnyCall): void {
    try {
      link.send(call, this.#seenIndex);
    } catch (error) {
      this.#finish(call, call.finalError(asFlotilla(error)));
      return;
    }
    const nowMs = steadyMs();
    call.isSent = true;
    call.dueMs = nowMs + call.waitMs;
    call.answerByMs = call.dueMs + ANSWER_MS_MAX;
    this.deadlines.watch(nowMs + (call.waitMs ? PING_MS : SUSPECT_MS));
  }

  // Results.

  #answered(link: Link, call: AnyCall, answer: unknown): void {
    let error: FlotillaError;
    if (answer instanceof FlotillaError) error = answer;
    else {
      const { name, value } = answer as { name: string; value: unknown };
      if (name === OPERATIONS[call.operation].reply) {
        if (call.isStream) this.#pass(call, value);
        else {
          call.link = undefined;
          this.#finish(call, value);
        }
        return;
      }
      error = new UnknownError(`${call.operation} was answered with ${name}`);
    }
    if (error instanceof NotLeaderError) this.routes.redirect(call.route, error.address);
    else if (error instanceof NotFoundError && call.route.topic) this.routes.doubt(call.route, link.address);
    this.failed(call, error);
  }

  /** An attempt ended without a reply. */
  failed(call: AnyCall, error: FlotillaError, isUnsure = false): void {
    call.failed(error, isUnsure);
    this.#search.delete(call);
    if (call.isSingle) this.#finish(call, error);
    else if (!call.mayRepeat(error)) this.#finish(call, call.finalError(error));
    else call.retry = setTimeout(() => this.#attempt(call), backoffMs(call.attempts, error));
  }

  /** Removes a connection: its calls are retried elsewhere. */
  drop(link: Link, error: FlotillaError): void {
    if (this.#links.get(link.address) !== link) return;
    this.#links.delete(link.address);
    this.routes.missed(link.address);
    link.close();
    const sent = link.sent();
    const queued = [...link.queue];
    for (const call of [...sent, ...queued]) this.routes.doubt(call.route, link.address);
    for (const call of sent) this.failed(call, error, true);
    for (const call of queued) this.failed(call, error);
    for (const watcher of this.watchers) queueMicrotask(() => watcher.linkLost(link.address));
  }

  #finish(call: AnyCall, result: unknown): void {
    this.#release(call);
    this.#pass(call, result);
  }

  #pass(call: AnyCall, result: unknown): void {
    this.#results.push([call, result]);
    this.#settleSoon();
  }

  /** Removes the call from every collection. */
  #release(call: AnyCall): void {
    this.#calls.delete(call);
    this.#search.delete(call);
    clearTimeout(call.retry);
    call.link?.forget(call);
    call.link = undefined;
    call.isSent = false;
  }

  #settleSoon(): void {
    if (this.#isSettling) return;
    this.#isSettling = true;
    queueMicrotask(() => {
      this.#isSettling = false;
      const results = this.#results;
      this.#results = [];
      for (const [call, result] of results) {
        if (call.isOver) continue;
        call.isOver = !call.isStream || result instanceof FlotillaError;
        call.done(result as Result<Operation>);
      }
      if (this.routes.moved.size) this.#followLeaders();
    });
  }

  // For the search for leaders, and the watch over silent brokers.

  isOpen(call: AnyCall): boolean {
    return this.#calls.has(call);
  }

  links(): Link[] {
    return [...this.#links.values()];
  }

  startAt(call: AnyCall, address: Address): void {
    this.#calls.add(call);
    this.deadlines.watch(call.deadlineMs);
    this.assign(call, address);
  }

  sendNow(call: AnyCall, link: Link): void {
    this.#calls.add(call);
    call.link = link;
    this.#send(link, call);
  }

  waitingForSuspects(): { calls: AnyCall[]; addresses: Address[] } {
    return this.#silence.waiting();
  }

  inquire(): void {
    this.#search.inquire();
  }

  learned(): void {
    this.#silence.leaveSuspects();
    if (this.routes.moved.size) this.#settleSoon();
  }

  // Leaders and time.

  /** Ends long polls at brokers that no longer lead. A poll of a queue is answered with what it has leased. */
  #followLeaders(): void {
    const { moved } = this.routes;
    this.routes.moved = new Set();
    for (const call of [...this.#calls]) {
      const { link } = call;
      if (!moved.has(call.route.key) || !call.isSent || !link || call.isStream) continue;
      const leader = this.routes.find(call.route);
      if (leader === undefined || leader === link.address || call.dueMs <= steadyMs()) continue;
      this.#endWait(call, link);
      if (call.isSingle) continue;
      link.forget(call);
      const error = new NotLeaderError(`the leader is at ${leader}`);
      error.address = leader;
      this.failed(call, error);
    }
    for (const watcher of this.watchers) watcher.leadersMoved();
  }

  /** Ends everything that is overdue, and finds the time of the next scan. */
  #scan(): void {
    const nowMs = steadyMs();
    for (const call of [...this.#calls]) {
      if (call.isSent && call.link && call.answerByMs <= nowMs) {
        this.drop(call.link, new UnavailableError(`the broker at ${call.link.address} does not answer`));
      }
    }
    for (const call of [...this.#calls]) {
      if (call.deadlineMs <= nowMs) {
        call.lastError ??= [...this.#links.values()].map((link) => link.silence).find((each) => each);
        this.#finish(call, call.overdue());
      } else {
        this.deadlines.watch(call.deadlineMs);
        if (call.isSent) this.deadlines.watch(call.answerByMs);
      }
    }
    this.#silence.scan();
  }
}

/** The error with which a broker ends a connection, as one that allows a retry: it is not about the call. */
function refused(address: Address, error: FlotillaError): FlotillaError {
  if (error.retryable || error instanceof UnauthenticatedError) return error;
  return new UnavailableError(`the broker at ${address} ended the connection: ${error.message}`);
}

function asFlotilla(error: unknown): FlotillaError {
  return error instanceof FlotillaError ? error : new InvalidArgumentError(String(error), { cause: error });
}
