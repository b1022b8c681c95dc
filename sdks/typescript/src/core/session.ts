/**
 * The client's side of a cluster: finds leaders, keeps one connection per broker, sends each call to its broker, and
 * retries it until its deadline as far as its effect allows.
 *
 * A broker that sends nothing although an answer is due becomes a suspect: it may be dead or only slow. Other brokers
 * are asked repeatedly who leads in its place, and its calls stay with it until one of them names another leader: so a
 * slow broker gets no call twice, and a dead one delays its calls no longer than an election takes. While all calls at a
 * broker are long polls, no answer is due: the session pings a broker that is silent meanwhile. A long poll at a broker
 * that no longer leads ends as soon as the new leader is known.
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
import { Link, type LinkOptions } from "./link.js";
import { type Address, ANY, CONTROLLER, type Metadata, type Route, Routes, type Topic } from "./routes.js";
import { deferred, type Limits, steadyMs, unlessAborted } from "./time.js";

/** From dialling to Welcome. */
const CONNECT_MS_MAX = 5_000;
/** Beyond the wait that a request asks for. A broker that sends nothing for longer is taken for dead, */
const ANSWER_MS_MAX = 10_000;
/** and suspected of it after this time. */
const SUSPECT_MS = 1_000;
/** A broker that sends nothing for this long, while only long polls are in flight, is pinged. */
const PING_MS = 500;
/** The longest interval at which other brokers are asked who leads in place of a suspect. */
const INQUIRY_MS = 500;
/** An idle connection is closed well before the broker closes it. */
const IDLE_MS_MAX = 300_000;

type AnyCall = Call;

export class Session {
  readonly routes: Routes;
  /** The name by which brokers know that this process is gone: its undecided transactions end with it. */
  readonly member = `client-${randomBytes(8).toString("hex")}`;
  isClosed = false;
  /** How far the brokers' clock is ahead of ours, at the most, as the last Welcome said. */
  clockAheadMs = 0;
  /** Called with the address of each connection that ends. */
  readonly watchers = new Set<(address: Address) => void>();
  readonly #links = new Map<Address, Link>();
  readonly #calls = new Set<AnyCall>();
  // Calls that wait for metadata.
  readonly #unrouted = new Set<AnyCall>();
  // While metadata are requested: the topics, and the brokers that were not asked yet.
  #asked: string[] | undefined;
  #untried: Address[] = [];
  #inquiry: NodeJS.Timeout | undefined;
  #results: [AnyCall, unknown][] = [];
  #isSettling = false;
  // The newest metadata that were seen, over all connections: nothing older is wanted from any broker.
  #seenIndex = 0;
  #clusterId = "";
  // A lower bound of all deadlines of calls and links, and its timer.
  #scanMs = Infinity;
  #scanTimer: NodeJS.Timeout | undefined;

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

  /** Starts a call; `done` is called once, by its deadline at the latest. */
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
    this.#watch(call.deadlineMs);
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
    const options = { deadlineMs: steadyMs() + ANSWER_MS_MAX, route: call.route, isSingle: true };
    const withdrawal = new Call("withdraw", { request: call.correlationId }, options, ignore);
    this.#calls.add(withdrawal as unknown as AnyCall);
    this.#watch(withdrawal.deadlineMs);
    this.#assign(withdrawal as unknown as AnyCall, link.address);
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
    clearTimeout(this.#scanTimer);
    clearTimeout(this.#inquiry);
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
    this.#drop(link, refused(link.address, error));
  }

  // Routing.

  #attempt(call: AnyCall): void {
    if (!this.#calls.has(call)) return;
    const address = call.route === ANY ? this.#anyAddress(call) : this.routes.find(call.route);
    if (address === undefined) {
      this.#unrouted.add(call);
      this.#refresh();
    } else this.#assign(call, address);
  }

  /** The best one, and another one for a call to which the last one knew too little. */
  #anyAddress(call: AnyCall): Address {
    const askable = this.#askable();
    return askable[call.lastError instanceof ReplicaBehindError ? call.attempts % askable.length : 0]!;
  }

  /** All addresses, in the order in which to ask them for metadata. */
  #askable(): Address[] {
    const open = [...this.#links.values()].filter((link) => link.isOpen).map((link) => link.address);
    const all = [...new Set([...open, ...this.routes.candidates()])];
    const { suspects } = this.routes;
    return [...all.filter((each) => !suspects.has(each)), ...all.filter((each) => suspects.has(each))];
  }

  #assign(call: AnyCall, address: Address): void {
    let link = this.#links.get(address);
    if (!link) {
      try {
        link = new Link(address, steadyMs() + CONNECT_MS_MAX, this.options, this);
      } catch (error) {
        this.#finish(call, asFlotilla(error));
        return;
      }
      this.#links.set(address, link);
      this.#watch(steadyMs() + SUSPECT_MS);
    }
    call.link = link;
    link.queue.add(call);
    this.#sendQueued(link);
    if (this.routes.suspects.has(address)) this.#inquire();
  }

  #sendQueued(link: Link): void {
    for (const call of link.queue) {
      if (!link.hasRoom) return;
      link.queue.delete(call);
      this.#send(link, call, PING_MS);
    }
  }

  #send(link: Link, call: AnyCall, pollWatchMs: number): void {
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
    this.#watch(nowMs + (call.waitMs ? pollWatchMs : SUSPECT_MS));
  }

  // Results.

  #answered(link: Link, call: AnyCall, answer: unknown): void {
    let error: FlotillaError;
    if (answer instanceof FlotillaError) error = answer;
    else {
      const { name, value } = answer as { name: string; value: unknown };
      if (name === OPERATIONS[call.operation].reply) {
        call.link = undefined;
        this.#finish(call, value);
        return;
      }
      error = new UnknownError(`${call.operation} was answered with ${name}`);
    }
    if (error instanceof NotLeaderError) this.routes.redirect(call.route, error.address);
    else if (error instanceof NotFoundError && call.route.topic) this.routes.doubt(call.route, link.address);
    this.#failed(call, error);
  }

  /** An attempt ended without a reply. */
  #failed(call: AnyCall, error: FlotillaError, isUnsure = false): void {
    call.failed(error, isUnsure);
    this.#unrouted.delete(call);
    if (call.isSingle) this.#finish(call, error);
    else if (!call.mayRepeat(error)) this.#finish(call, call.finalError(error));
    else call.retry = setTimeout(() => this.#attempt(call), backoffMs(call.attempts, error));
  }

  /** Removes a connection: its calls are retried elsewhere. */
  #drop(link: Link, error: FlotillaError): void {
    if (this.#links.get(link.address) !== link) return;
    this.#links.delete(link.address);
    this.routes.missed(link.address);
    link.close();
    const sent = link.sent();
    const queued = [...link.queue];
    for (const call of [...sent, ...queued]) this.routes.doubt(call.route, link.address);
    for (const call of sent) this.#failed(call, error, true);
    for (const call of queued) this.#failed(call, error);
    for (const watcher of this.watchers) queueMicrotask(() => watcher(link.address));
  }

  #finish(call: AnyCall, result: unknown): void {
    this.#release(call);
    this.#results.push([call, result]);
    this.#settleSoon();
  }

  /** Removes the call from every collection. */
  #release(call: AnyCall): void {
    this.#calls.delete(call);
    this.#unrouted.delete(call);
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
        call.isOver = true;
        call.done(result as Result<Operation>);
      }
      if (this.routes.moved.size) this.#followLeaders();
    });
  }

  // Metadata.

  /** Asks one broker after the other until one answers, for the calls without a route. */
  #refresh(): void {
    if (this.#asked || !this.#unrouted.size) return;
    this.#asked = [...new Set([...this.#unrouted].map((call) => call.route.topic).filter((topic) => topic))];
    this.#untried = this.#askable();
    this.#askNext(ANSWER_MS_MAX);
  }

  #askNext(timeoutMs: number): void {
    const address = this.#untried.shift()!;
    const options = { deadlineMs: steadyMs() + timeoutMs, isSingle: true };
    const call = new Call("getMetadata", { topics: this.#asked! }, options, (result) => this.#onMetadata(result));
    this.#calls.add(call as unknown as AnyCall);
    this.#watch(call.deadlineMs);
    this.#assign(call as unknown as AnyCall, address);
  }

  #onMetadata(result: Result<"getMetadata">): void {
    if (this.isClosed) return;
    if (result instanceof FlotillaError) {
      if (this.#untried.length) {
        this.#askNext(ANSWER_MS_MAX);
        return;
      }
      this.#asked = undefined;
      for (const call of [...this.#unrouted]) this.#failed(call, result);
      return;
    }
    const asked = this.#asked!;
    this.#asked = undefined;
    this.routes.update(result, asked);
    this.#leaveSuspects();
    for (const call of [...this.#unrouted]) {
      // A call that came while the request was in flight may need another one.
      if (call.route.topic && !asked.includes(call.route.topic)) continue;
      this.#unrouted.delete(call);
      this.#routeAgain(call);
    }
    if (this.routes.moved.size) this.#settleSoon();
    this.#refresh();
  }

  #routeAgain(call: AnyCall): void {
    let address = this.routes.find(call.route);
    // Any broker forwards it, or names the leader by now.
    if (address === undefined && call.route === CONTROLLER) address = this.#anyAddress(call);
    if (address !== undefined) this.#assign(call, address);
    else if (call.route.topic && !this.routes.topics.has(call.route.topic)) this.#confirmMissing(call);
    else this.#failed(call, this.#routeError(call.route));
  }

  /** Asks the controller whether the topic of a call exists. */
  #confirmMissing(call: AnyCall): void {
    const topics = [call.route.topic];
    this.submit("getMetadata", { topics }, { deadlineMs: call.deadlineMs, route: CONTROLLER }, (result) => {
      if (!(result instanceof FlotillaError)) this.routes.update(result, topics);
      if (!this.#calls.has(call)) return;
      const address = this.routes.find(call.route);
      if (address !== undefined) this.#assign(call, address);
      else this.#failed(call, result instanceof FlotillaError ? result : this.#routeError(call.route));
    });
  }

  #routeError(route: Route): FlotillaError {
    const topic = this.routes.topics.get(route.topic);
    if (!topic) return noTopic(route.topic);
    if (topic.partitions.some((part) => part.number === route.partition)) return new NotLeaderError("no leader is known");
    return new NotFoundError(
      `topic ${route.topic} has no partition ${route.partition}, only ${topic.partitions.length} of them`,
    );
  }

  // Suspects.

  #suspect(link: Link): void {
    this.routes.suspects.add(link.address);
    if (!this.routes.suspects.has(this.#askable()[0]!)) {
      const error = new UnavailableError(`the broker at ${link.address} is silent`);
      for (const call of link.calls()) {
        if ((call.route !== ANY && !call.route.replica) || call.effect !== "read") continue;
        link.forget(call);
        this.#failed(call, error);
      }
    }
    this.#inquire();
  }

  /** While calls wait for a suspect, asks another broker for the leaders of their routes. */
  #inquire(): void {
    const silent = [...this.#links.values()].filter((link) => this.routes.suspects.has(link.address));
    const routes = silent.flatMap((link) => link.calls()).map((call) => call.route);
    if (this.#inquiry || this.isClosed || !routes.some((route) => route !== ANY)) return;
    this.#inquiry = setTimeout(() => {
      this.#inquiry = undefined;
      this.#inquire();
    }, INQUIRY_MS * (0.5 + Math.random() / 2));
    let others = this.#askable().filter((address) => !this.routes.suspects.has(address));
    // Suspects without a connection may have recovered: nothing was sent to them since.
    if (!others.length) others = this.#askable().filter((address) => !silent.some((link) => link.address === address));
    if (!others.length || this.#asked) return;
    // A random one: always the same broker might lag behind, or be silent, too.
    this.#asked = [...new Set(routes.map((route) => route.topic).filter((topic) => topic))];
    this.#untried = [others[Math.floor(Math.random() * others.length)]!];
    this.#askNext(SUSPECT_MS);
  }

  /** Drops the connections to suspects that others have replaced; their calls are retried where that is safe. */
  #leaveSuspects(): void {
    for (const link of [...this.#links.values()]) {
      if (!this.routes.suspects.has(link.address)) continue;
      const leaders = link.calls().map((call) => this.routes.find(call.route));
      if (leaders.some((leader) => leader !== undefined && leader !== link.address)) {
        this.#drop(link, new UnavailableError(`the broker at ${link.address} is silent, and another leads`));
      }
    }
  }

  /** Ends long polls at brokers that no longer lead. A poll of a queue is answered with what it has leased. */
  #followLeaders(): void {
    const { moved } = this.routes;
    this.routes.moved = new Set();
    for (const call of [...this.#calls]) {
      const { link } = call;
      if (!moved.has(call.route.key) || !call.isSent || !link) continue;
      const leader = this.routes.find(call.route);
      if (leader === undefined || leader === link.address || call.dueMs <= steadyMs()) continue;
      this.#endWait(call, link);
      if (call.isSingle) continue;
      link.forget(call);
      const error = new NotLeaderError(`the leader is at ${leader}`);
      error.address = leader;
      this.#failed(call, error);
    }
  }

  // Time.

  #watch(whenMs: number): void {
    if (whenMs >= this.#scanMs || this.isClosed) return;
    this.#scanMs = whenMs;
    clearTimeout(this.#scanTimer);
    this.#scanTimer = setTimeout(() => this.#scan(), Math.max(whenMs - steadyMs(), 0) + 1);
  }

  /** Ends everything that is overdue, and finds the time of the next scan. */
  #scan(): void {
    const nowMs = steadyMs();
    this.#scanMs = Infinity;
    for (const call of [...this.#calls]) {
      if (call.isSent && call.link && call.answerByMs <= nowMs) {
        this.#drop(call.link, new UnavailableError(`the broker at ${call.link.address} does not answer`));
      }
    }
    for (const call of [...this.#calls]) {
      if (call.deadlineMs <= nowMs) {
        call.lastError ??= [...this.#links.values()].map((link) => link.silence).find((each) => each);
        this.#finish(call, call.overdue());
      } else {
        this.#watch(call.deadlineMs);
        if (call.isSent) this.#watch(call.answerByMs);
      }
    }
    for (const link of [...this.#links.values()]) this.#scanLink(link);
  }

  #scanLink(link: Link): void {
    const { owedMs } = link;
    if (owedMs === undefined) {
      if (this.#isOver(link.heardMs + IDLE_MS_MAX)) this.#drop(link, new UnavailableError("idle"));
      return;
    }
    const answerByMs = link.isOpen ? owedMs + ANSWER_MS_MAX : link.openByMs;
    if (this.#isOver(answerByMs)) {
      const late = new UnavailableError(`the broker at ${link.address} does not answer in time`);
      this.#drop(link, link.silence ?? late);
    } else if (!this.routes.suspects.has(link.address) && this.#isOver(owedMs + SUSPECT_MS)) this.#suspect(link);
    else if (owedMs > steadyMs() && this.#isOver(link.heardMs + PING_MS)) this.#ping(link);
  }

  /** Makes an answer due on a silent connection. */
  #ping(link: Link): void {
    if (!link.hasRoomForPing) return;
    const nowMs = steadyMs();
    const ping = new Call("ping", {}, { deadlineMs: nowMs + ANSWER_MS_MAX, isSingle: true }, ignore);
    const call = ping as unknown as AnyCall;
    this.#calls.add(call);
    call.link = link;
    this.#send(link, call, PING_MS);
    call.dueMs = nowMs - PING_MS;
    this.#watch(call.dueMs + SUSPECT_MS);
  }

  /** Whether this time has come; if not, a scan is due then. */
  #isOver(whenMs: number): boolean {
    if (whenMs > steadyMs()) this.#watch(whenMs);
    return whenMs <= steadyMs();
  }
}

function ignore(): void {
  // Only that the broker answers matters, and the connection notes that.
}

export function noTopic(name: string): NotFoundError {
  return new NotFoundError(`there is no topic ${name}; create it first`);
}

/** The error with which a broker ends a connection, as one that allows a retry: it is not about the call. */
function refused(address: Address, error: FlotillaError): FlotillaError {
  if (error.retryable || error instanceof UnauthenticatedError) return error;
  return new UnavailableError(`the broker at ${address} ended the connection: ${error.message}`);
}

function asFlotilla(error: unknown): FlotillaError {
  return error instanceof FlotillaError ? error : new InvalidArgumentError(String(error), { cause: error });
}
