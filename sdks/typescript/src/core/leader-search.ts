/**
 * The search for leaders: calls without a route, and the requests for metadata that find one.
 *
 * One request is in flight at a time. Brokers are asked one after the other until one answers. A topic that metadata do
 * not name may be too new for the broker that was asked: the controller has the last word.
 */

import type { Operation, RequestFields } from "../codec/operations.js";
import { FlotillaError, NotFoundError, NotLeaderError } from "../errors.js";
import { Call, type CallOptions, type Result } from "./call.js";
import { type Address, ANY, CONTROLLER, type Route, type Routes } from "./routes.js";
import { steadyMs } from "./time.js";

/** Beyond the wait that a request asks for. A broker that sends nothing for longer is taken for dead, */
export const ANSWER_MS_MAX = 10_000;
/** and suspected of it after this time. */
export const SUSPECT_MS = 1_000;
/** The longest interval at which other brokers are asked who leads in place of a suspect. */
const INQUIRY_MS = 500;

/** The session, as the search sees it. */
export interface SearchOwner {
  readonly routes: Routes;
  readonly isClosed: boolean;
  /** All addresses, in the order in which to ask them for metadata. */
  askable(): Address[];
  /** The address for a call that any broker can answer. */
  anyAddress(call: Call): Address;
  /** Whether the call has no result yet. */
  isOpen(call: Call): boolean;
  submit<O extends Operation>(operation: O, fields: RequestFields<O>, options: CallOptions, done: (result: Result<O>) => void): Call<O>;
  /** Starts a call at this address. */
  startAt(call: Call, address: Address): void;
  assign(call: Call, address: Address): void;
  /** An attempt ended without a reply. */
  failed(call: Call, error: FlotillaError): void;
  /** Metadata have come. */
  learned(): void;
  /** Calls that wait for suspects, and the addresses of these. */
  waitingForSuspects(): { calls: Call[]; addresses: Address[] };
}

export class LeaderSearch {
  // Calls that wait for metadata.
  readonly #unrouted = new Set<Call>();
  // While metadata are requested: the topics, and the brokers that were not asked yet.
  #asked: string[] | undefined;
  #untried: Address[] = [];
  #inquiry: NodeJS.Timeout | undefined;

  constructor(readonly owner: SearchOwner) {}

  /** Finds a route for the call. */
  add(call: Call): void {
    this.#unrouted.add(call);
    this.#refresh();
  }

  delete(call: Call): void {
    this.#unrouted.delete(call);
  }

  close(): void {
    clearTimeout(this.#inquiry);
  }

  /** Asks one broker after the other until one answers, for the calls without a route. */
  #refresh(): void {
    if (this.#asked || !this.#unrouted.size) return;
    this.#asked = topicsOf([...this.#unrouted].map((call) => call.route));
    this.#untried = this.owner.askable();
    this.#askNext(ANSWER_MS_MAX);
  }

  #askNext(timeoutMs: number): void {
    const address = this.#untried.shift()!;
    const options = { deadlineMs: steadyMs() + timeoutMs, isSingle: true };
    const call = new Call("getMetadata", { topics: this.#asked! }, options, (result) => this.#onMetadata(result));
    this.owner.startAt(call as unknown as Call, address);
  }

  #onMetadata(result: Result<"getMetadata">): void {
    const { owner } = this;
    if (owner.isClosed) return;
    if (result instanceof FlotillaError) {
      if (this.#untried.length) {
        this.#askNext(ANSWER_MS_MAX);
        return;
      }
      this.#asked = undefined;
      for (const call of [...this.#unrouted]) owner.failed(call, result);
      return;
    }
    const asked = this.#asked!;
    this.#asked = undefined;
    owner.routes.update(result, asked);
    owner.learned();
    for (const call of [...this.#unrouted]) {
      // A call that came while the request was in flight may need another one.
      if (call.route.topic && !asked.includes(call.route.topic)) continue;
      this.#unrouted.delete(call);
      this.#routeAgain(call);
    }
    this.#refresh();
  }

  #routeAgain(call: Call): void {
    const { owner } = this;
    let address = owner.routes.find(call.route);
    // Any broker forwards it, or names the leader by now.
    if (address === undefined && call.route === CONTROLLER) address = owner.anyAddress(call);
    if (address !== undefined) owner.assign(call, address);
    else if (call.route.topic && !owner.routes.topics.has(call.route.topic)) this.#confirmMissing(call);
    else owner.failed(call, this.#routeError(call.route));
  }

  /** Asks the controller whether the topic of a call exists. */
  #confirmMissing(call: Call): void {
    const { owner } = this;
    const topics = [call.route.topic];
    owner.submit("getMetadata", { topics }, { deadlineMs: call.deadlineMs, route: CONTROLLER }, (result) => {
      if (!(result instanceof FlotillaError)) owner.routes.update(result, topics);
      if (!owner.isOpen(call)) return;
      const address = owner.routes.find(call.route);
      if (address !== undefined) owner.assign(call, address);
      else owner.failed(call, result instanceof FlotillaError ? result : this.#routeError(call.route));
    });
  }

  #routeError(route: Route): FlotillaError {
    const topic = this.owner.routes.topics.get(route.topic);
    if (!topic) return noTopic(route.topic);
    if (topic.partitions.some((part) => part.number === route.partition)) return new NotLeaderError("no leader is known");
    return new NotFoundError(
      `topic ${route.topic} has no partition ${route.partition}, only ${topic.partitions.length} of them`,
    );
  }

  /** While calls wait for a suspect, asks another broker for the leaders of their routes. */
  inquire(): void {
    const { calls, addresses } = this.owner.waitingForSuspects();
    const routes = calls.map((call) => call.route);
    if (this.#inquiry || this.owner.isClosed || !routes.some((route) => route !== ANY)) return;
    this.#inquiry = setTimeout(() => {
      this.#inquiry = undefined;
      this.inquire();
    }, INQUIRY_MS * (0.5 + Math.random() / 2));
    const askable = this.owner.askable();
    let others = askable.filter((address) => !this.owner.routes.suspects.has(address));
    // Suspects without a connection may have recovered: nothing was sent to them since.
    if (!others.length) others = askable.filter((address) => !addresses.includes(address));
    if (!others.length || this.#asked) return;
    // A random one: always the same broker might lag behind, or be silent, too.
    this.#asked = topicsOf(routes);
    this.#untried = [others[Math.floor(Math.random() * others.length)]!];
    this.#askNext(SUSPECT_MS);
  }
}

function topicsOf(routes: readonly Route[]): string[] {
  return [...new Set(routes.map((route) => route.topic).filter((topic) => topic))];
}

export function noTopic(name: string): NotFoundError {
  return new NotFoundError(`there is no topic ${name}; create it first`);
}
