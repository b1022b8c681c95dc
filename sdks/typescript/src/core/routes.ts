/**
 * The client's view of the cluster: brokers, topics and leaders. All of it may be out of date.
 *
 * It is learned from metadata and from redirects; the session asks when an entry is missing or proved wrong. Leaders are
 * compared by term: a broker's answer replaces a known leader only if it names a newer term. Otherwise a broker that
 * lags behind, or has no replica and guesses, would misdirect calls.
 */

import type { Reply } from "../codec/operations.js";

export type Metadata = Reply<"getMetadata">;
export type Topic = Metadata["topics"][number];
/** `host:port`, as clients reach a broker. */
export type Address = string;

/** Where a request must go. Equal routes have equal keys. */
export interface Route {
  readonly key: string;
  readonly topic: string;
  readonly partition: number;
  /** 0: the leader of the partition; else this node, which has a replica of it. */
  readonly replica: number;
}

/** Any node can answer. */
export const ANY: Route = { key: "*", topic: "", partition: 0, replica: 0 };
/** The leader of the metadata. */
export const CONTROLLER: Route = { key: "controller", topic: "", partition: -1, replica: 0 };

/** The leader of a partition, or the given replica of it. */
export function routeTo(topic: string, partition: number, replica = 0): Route {
  return { key: `${topic}/${partition}/${replica}`, topic, partition, replica };
}

export class Routes {
  #bootstrap: Address[];
  #brokers: Address[] = [];
  #nodes = new Map<number, Address>();
  #leaders = new Map<string, Address>();
  #terms = new Map<string, number>();
  // Brokers whose connection failed, and that have sent nothing since; the newest failure last.
  #missed = new Set<Address>();
  /** Brokers that did not answer in time, and have sent nothing since. */
  readonly suspects = new Set<Address>();
  readonly topics = new Map<string, Topic>();
  /** For each topic, the index of the metadata up to which its description is true. */
  readonly describedAt = new Map<string, number>();
  /** The shortest round trip of Hello to each broker. */
  readonly roundTripsMs = new Map<Address, number>();
  /** Keys of routes with another leader than before. The session clears it when it has followed them. */
  moved = new Set<string>();

  constructor(bootstrap: Address[]) {
    // In random order: a thousand clients must not all start with the same node.
    this.#bootstrap = shuffled(bootstrap);
  }

  /** Where to send; undefined: unknown, or there is no leader. */
  find(route: Route): Address | undefined {
    return route.replica ? this.#nodes.get(route.replica) : this.#leaders.get(route.key);
  }

  leader(topic: string, partition: number): Address | undefined {
    return this.find(routeTo(topic, partition));
  }

  address(node: number): Address | undefined {
    return this.#nodes.get(node);
  }

  measured(address: Address, roundTripMs: number): void {
    this.roundTripsMs.set(address, Math.min(roundTripMs, this.roundTripsMs.get(address) ?? Infinity));
  }

  /** All addresses that may answer: of the unreachable ones, the one that was tried longest ago comes first. */
  candidates(): Address[] {
    const tried = [...this.#missed];
    const rank = (address: Address): number => (this.suspects.has(address) ? 1e6 : 0) + tried.indexOf(address) + 1;
    return [...new Set([...this.#brokers, ...this.#bootstrap])].sort((one, other) => rank(one) - rank(other));
  }

  missed(address: Address): void {
    this.#missed.delete(address);
    this.#missed.add(address);
  }

  /** The broker at this address has sent something. */
  heard(address: Address): void {
    this.suspects.delete(address);
    this.#missed.delete(address);
  }

  /** Takes over metadata of the asked topics; the answer says nothing about others. */
  update(metadata: Metadata, asked: readonly string[]): void {
    this.#nodes = new Map(metadata.brokers.filter((each) => each.client).map((each) => [each.node, each.client]));
    this.#brokers = shuffled(metadata.brokers.filter((each) => each.isAlive && each.client).map((each) => each.client));
    this.#set(CONTROLLER.key, this.#nodes.get(metadata.controller));
    const found = new Map(metadata.topics.map((topic) => [topic.name, topic.topicId]));
    for (const name of asked) {
      const known = this.topics.get(name);
      if (known && known.topicId !== found.get(name)) this.forget(name);
    }
    for (const topic of metadata.topics) {
      this.describedAt.set(topic.name, Math.max(metadata.index, this.describedAt.get(topic.name) ?? 0));
      const known = this.topics.get(topic.name);
      // Partitions are only added: a broker that reports fewer lags behind.
      if (!known || known.topicId !== topic.topicId || topic.partitions.length >= known.partitions.length) {
        this.topics.set(topic.name, topic);
      }
      for (const part of topic.partitions) {
        this.#believe(routeTo(topic.name, part.number).key, this.#nodes.get(part.leader), part.term);
      }
    }
  }

  #believe(key: string, address: Address | undefined, term: number): void {
    const known = this.#leaders.get(key);
    if (known === undefined || known === address || term > (this.#terms.get(key) ?? 0)) {
      this.#terms.set(key, term);
      this.#set(key, address);
    }
  }

  /** Takes over the leader that a broker named, or that it knows none. */
  redirect(route: Route, address: Address): void {
    const key = route.replica ? routeTo(route.topic, route.partition).key : route.key;
    this.#set(key, address || undefined);
  }

  /** Forgets a leader at this address, because a call to it failed. */
  doubt(route: Route, address: Address): void {
    if (this.#leaders.get(route.key) === address) this.#leaders.delete(route.key);
  }

  /** Takes over a topic that was created or changed just now; its leaders are not known yet. */
  learn(topic: Topic): void {
    this.forget(topic.name);
    this.topics.set(topic.name, topic);
  }

  /** Drops a topic that was deleted, or may have been created anew. */
  forget(name: string): void {
    const topic = this.topics.get(name);
    this.topics.delete(name);
    this.describedAt.delete(name);
    for (const part of topic?.partitions ?? []) {
      const { key } = routeTo(name, part.number);
      this.#leaders.delete(key);
      this.#terms.delete(key);
    }
  }

  #set(key: string, address: Address | undefined): void {
    if (address === undefined) this.#leaders.delete(key);
    else if (this.#leaders.get(key) !== address) {
      this.#leaders.set(key, address);
      this.moved.add(key);
    }
  }
}

function shuffled<T>(items: readonly T[]): T[] {
  const found = [...items];
  for (let at = found.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [found[at], found[other]] = [found[other]!, found[at]!];
  }
  return found;
}
