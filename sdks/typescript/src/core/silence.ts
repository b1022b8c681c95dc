/**
 * Brokers that send nothing although an answer is due.
 *
 * Such a broker becomes a suspect: it may be dead or only slow. Other brokers are asked repeatedly who leads in its place,
 * and its calls stay with it until one of them names another leader: so a slow broker gets no call twice, and a dead one
 * delays its calls no longer than an election takes. While all calls at a broker are long polls, no answer is due: a
 * broker that is silent meanwhile is pinged.
 */

import { FlotillaError, UnavailableError } from "../errors.js";
import { Call } from "./call.js";
import type { Deadlines } from "./deadlines.js";
import { ANSWER_MS_MAX, SUSPECT_MS } from "./leader-search.js";
import type { Link } from "./link.js";
import { type Address, ANY, type Routes } from "./routes.js";
import { steadyMs } from "./time.js";

/** A broker that sends nothing for this long, while only long polls are in flight, is pinged. */
export const PING_MS = 500;
/** An idle connection is closed well before the broker closes it. */
const IDLE_MS_MAX = 300_000;

/** The session, as the watch sees it. */
export interface SilenceOwner {
  readonly routes: Routes;
  readonly deadlines: Deadlines;
  links(): Link[];
  /** All addresses, in the order in which to ask them for metadata. */
  askable(): Address[];
  /** Sends a call now. */
  sendNow(call: Call, link: Link): void;
  /** An attempt ended without a reply. */
  failed(call: Call, error: FlotillaError): void;
  /** Removes a connection: its calls are retried elsewhere. */
  drop(link: Link, error: FlotillaError): void;
  /** Asks other brokers who leads in place of suspects. */
  inquire(): void;
}

export class SilenceWatch {
  constructor(readonly owner: SilenceOwner) {}

  scan(): void {
    for (const link of this.owner.links()) this.#scan(link);
  }

  #scan(link: Link): void {
    const { owedMs } = link;
    const { deadlines, routes } = this.owner;
    if (owedMs === undefined) {
      if (deadlines.isOver(link.heardMs + IDLE_MS_MAX)) this.owner.drop(link, new UnavailableError("idle"));
      return;
    }
    const answerByMs = link.isOpen ? owedMs + ANSWER_MS_MAX : link.openByMs;
    if (deadlines.isOver(answerByMs)) {
      const late = new UnavailableError(`the broker at ${link.address} does not answer in time`);
      this.owner.drop(link, link.silence ?? late);
    } else if (!routes.suspects.has(link.address) && deadlines.isOver(owedMs + SUSPECT_MS)) this.#suspect(link);
    else if (owedMs > steadyMs() && deadlines.isOver(link.heardMs + PING_MS)) this.#ping(link);
  }

  #suspect(link: Link): void {
    const { owner } = this;
    owner.routes.suspects.add(link.address);
    if (!owner.routes.suspects.has(owner.askable()[0]!)) {
      const error = new UnavailableError(`the broker at ${link.address} is silent`);
      for (const call of link.calls()) {
        if ((call.route !== ANY && !call.route.replica) || call.effect !== "read") continue;
        link.forget(call);
        owner.failed(call, error);
      }
    }
    owner.inquire();
  }

  /** Makes an answer due on a silent connection. */
  #ping(link: Link): void {
    if (!link.hasRoomForPing) return;
    const nowMs = steadyMs();
    const ping = new Call("ping", {}, { deadlineMs: nowMs + ANSWER_MS_MAX, isSingle: true }, ignore);
    this.owner.sendNow(ping as unknown as Call, link);
    ping.dueMs = nowMs - PING_MS;
    this.owner.deadlines.watch(ping.dueMs + SUSPECT_MS);
  }

  #suspects(): Link[] {
    return this.owner.links().filter((link) => this.owner.routes.suspects.has(link.address));
  }

  /** Calls that wait for suspects, and the addresses of these. */
  waiting(): { calls: Call[]; addresses: Address[] } {
    const links = this.#suspects();
    return { calls: links.flatMap((link) => link.calls()), addresses: links.map((link) => link.address) };
  }

  /** Drops the connections to suspects that others have replaced; their calls are retried where that is safe. */
  leaveSuspects(): void {
    for (const link of this.#suspects()) {
      const leaders = link.calls().map((call) => this.owner.routes.find(call.route));
      if (leaders.some((leader) => leader !== undefined && leader !== link.address)) {
        this.owner.drop(link, new UnavailableError(`the broker at ${link.address} is silent, and another leads`));
      }
    }
  }
}

/** Only that the broker answers matters, and the connection notes that. */
export function ignore(): void {}
