/** Administration of the cluster: its nodes, where replicas and leaders live, users and grants. */

import type { Operation, Reply, RequestFields } from "../codec/operations.js";
import { verifierOf } from "../core/credentials.js";
import { routeTo } from "../core/routes.js";
import type { Session } from "../core/session.js";
import type { Limits } from "../core/time.js";

export type Metadata = Reply<"getMetadata">;
export type Grant = Reply<"listGrants">["grants"][number];
export type UserInfo = Reply<"listUsers">["users"][number];
export type RoleOfUser = Reply<"listRoles">["roles"][number];
export type Quota = Reply<"listQuotas">["quotas"][number];
export type Action = "produce" | "consume" | "describe" | "manage" | "operate";

type Ask = <O extends Operation>(operation: O, fields: RequestFields<O>, limits: Limits) => Promise<Reply<O>>;

/** The attribute `admin` of a Client. */
export class Admin {
  /** Users with passwords. A password does not leave this process. */
  readonly users: Users;
  /** What users may do. */
  readonly grants: Grants;
  /** Named sets of grants that users have. */
  readonly roles: Roles;
  /** How much users and namespaces may use. */
  readonly quotas: Quotas;
  readonly #ask: Ask;

  /** @internal */
  constructor(private readonly session: () => Session, private readonly timeoutMs: number) {
    this.#ask = (operation, fields, limits) =>
      session().call(operation, fields, { signal: limits.signal, timeoutMs: limits.timeoutMs ?? timeoutMs });
    this.users = new Users(this.#ask);
    this.grants = new Grants(this.#ask);
    this.roles = new Roles(this.#ask);
    this.quotas = new Quotas(this.#ask);
  }

  /**
   * The brokers, and the named topics (all if none is named) with the leader of each partition. It shows every change
   * that was acknowledged before; without a quorum of the metadata what a node knows, and `isStale` is true.
   */
  metadata(topics: readonly string[] = [], limits: Limits = {}): Promise<Metadata> {
    return this.#ask("getMetadata", { topics: [...topics], isLinearizable: true }, limits);
  }

  /** Forms a cluster of waiting nodes, given by id and peer address. */
  initCluster(nodes: Readonly<Record<number, string>>, limits: Limits = {}): Promise<Reply<"initCluster">> {
    return this.#ask("initCluster", { nodes: { ...nodes } }, limits);
  }

  /** Has the waiting node that this client is connected to join the running cluster at these addresses. */
  enterCluster(servers: readonly string[], limits: Limits = {}): Promise<Reply<"enterCluster">> {
    return this.#ask("enterCluster", { servers: [...servers] }, limits);
  }

  removeNode(node: number, limits: Limits = {}): Promise<Reply<"removeNode">> {
    return this.#ask("removeNode", { node }, limits);
  }

  /** Moves the leaders of a node elsewhere, and gives it none until it is undrained. */
  async drainNode(node: number, limits: Limits = {}): Promise<void> {
    await this.#ask("drainNode", { node, isDraining: true }, limits);
  }

  async undrainNode(node: number, limits: Limits = {}): Promise<void> {
    await this.#ask("drainNode", { node, isDraining: false }, limits);
  }

  /** Spreads replicas and leaders evenly; returns the moves, which happen in the background. */
  async rebalance({ topics = [], dryRun = false, ...limits }: { topics?: readonly string[]; dryRun?: boolean } & Limits = {}): Promise<Reply<"rebalance">["moves"]> {
    return (await this.#ask("rebalance", { topics: [...topics], isDryRun: dryRun }, limits)).moves;
  }

  async cancelMoves(topics: readonly string[] = [], limits: Limits = {}): Promise<Reply<"cancelMoves">["moves"]> {
    return (await this.#ask("cancelMoves", { topics: [...topics] }, limits)).moves;
  }

  describeReplicas(topic: string, partition: number, limits: Limits = {}): Promise<Reply<"describeReplicas">> {
    return this.#ask("describeReplicas", { topic, partition }, limits);
  }

  /** What the node that this client is connected to warns of. */
  describeNode(limits: Limits = {}): Promise<Reply<"describeNode">> {
    return this.#ask("describeNode", {}, limits);
  }

  /** Rates of the last minutes at the node that this client is connected to. */
  readHistory(limits: Limits = {}): Promise<Reply<"readHistory">> {
    return this.#ask("readHistory", {}, limits);
  }

  /** Makes another node the leader of a partition; 0: the one that is most up to date. */
  async transferLeadership(topic: string, partition: number, to = 0, limits: Limits = {}): Promise<void> {
    const options = { signal: limits.signal, timeoutMs: limits.timeoutMs ?? this.timeoutMs, route: routeTo(topic, partition) };
    await this.session().call("transferLeadership", { topic, partition, to }, options);
  }

  /** Decided transactions that not all partitions show yet. */
  transactions({ limit = 100, ...limits }: { limit?: number } & Limits = {}): Promise<Reply<"listTransactions">> {
    return this.#ask("listTransactions", { limit }, limits);
  }

  /** Undecided transactions of one partition. */
  async openTransactions(topic: string, partition: number, limits: Limits = {}): Promise<Reply<"listOpenTransactions">["transactions"]> {
    return (await this.#ask("listOpenTransactions", { topic, partition }, limits)).transactions;
  }
}

export class Users {
  /** @internal */
  constructor(private readonly ask: Ask) {}

  /** A user without grants. Rejects with AlreadyExistsError. */
  async create(name: string, password: string, limits: Limits = {}): Promise<void> {
    await this.ask("createUser", { name, verifier: await verifierOf(password) }, limits);
  }

  /** Another password; open connections stay. */
  async setPassword(name: string, password: string, limits: Limits = {}): Promise<void> {
    await this.ask("setPassword", { name, verifier: await verifierOf(password) }, limits);
  }

  /** Removes a user and its grants, and ends its connections. */
  async delete(name: string, limits: Limits = {}): Promise<void> {
    await this.ask("deleteUser", { name }, limits);
  }

  async list(limits: Limits = {}): Promise<UserInfo[]> {
    return (await this.ask("listUsers", {}, limits)).users;
  }

  /** The first user, who may do everything. Needs no log-in, but a connection from the machine of a node. */
  async createAdministrator(name: string, password: string, limits: Limits = {}): Promise<void> {
    await this.ask("createAdministrator", { name, verifier: await verifierOf(password) }, limits);
  }
}

export class Grants {
  /** @internal */
  constructor(private readonly ask: Ask) {}

  /** Lets a user do something to a topic and its groups: exact names, prefixes that end with `*`, or `*`. */
  async add(user: string, action: Action, topic = "*", group = "*", limits: Limits = {}): Promise<void> {
    await this.ask("grantAccess", { grant: { user, action, topic, group } }, limits);
  }

  /** Takes a grant back, exactly as it was given. */
  async remove(user: string, action: Action, topic = "*", group = "*", limits: Limits = {}): Promise<void> {
    await this.ask("revokeAccess", { grant: { user, action, topic, group } }, limits);
  }

  /** The grants of a user, or of all. */
  async list(user = "", limits: Limits = {}): Promise<Grant[]> {
    return (await this.ask("listGrants", { user }, limits)).grants;
  }
}

export class Roles {
  /** @internal */
  constructor(private readonly ask: Ask) {}

  /** Lets the users of a role do something; as `grants.add`. */
  async grant(role: string, action: Action, topic = "*", group = "*", limits: Limits = {}): Promise<void> {
    await this.ask("grantAccess", { grant: { user: `role:${role}`, action, topic, group } }, limits);
  }

  async revoke(role: string, action: Action, topic = "*", group = "*", limits: Limits = {}): Promise<void> {
    await this.ask("revokeAccess", { grant: { user: `role:${role}`, action, topic, group } }, limits);
  }

  async assign(role: string, user: string, limits: Limits = {}): Promise<void> {
    await this.ask("assignRole", { user, role }, limits);
  }

  async unassign(role: string, user: string, limits: Limits = {}): Promise<void> {
    await this.ask("unassignRole", { user, role }, limits);
  }

  /** Removes a role with its grants, and takes it from all users. Rejects with NotFoundError. */
  async delete(role: string, limits: Limits = {}): Promise<void> {
    await this.ask("deleteUser", { name: `role:${role}` }, limits);
  }

  /** Who has which role. */
  async list(limits: Limits = {}): Promise<RoleOfUser[]> {
    return (await this.ask("listRoles", {}, limits)).roles;
  }
}

export class Quotas {
  /** @internal */
  constructor(private readonly ask: Ask) {}

  /** Sets the quota of a user or of a namespace; a limit that is missing is none. */
  async set(quota: Partial<Quota>, limits: Limits = {}): Promise<void> {
    await this.ask("setQuota", { quota }, limits);
  }

  async remove(of: { user?: string; namespace?: string }, limits: Limits = {}): Promise<void> {
    await this.ask("removeQuota", of, limits);
  }

  async list(limits: Limits = {}): Promise<Quota[]> {
    return (await this.ask("listQuotas", {}, limits)).quotas;
  }
}
