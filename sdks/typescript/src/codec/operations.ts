/**
 * Every operation of the protocol: its reply, the node that answers it, and when it may be repeated.
 *
 *     read        always, and its outcome is never unknown
 *     repeatable  always: done twice is done once
 *     once        only while it is certain that it was not done
 */

import type { Request, Response } from "../generated/client_pb.js";
import type { Deliveries, Delivery, LeaseRange, Plain } from "./values.js";

export type Effect = "read" | "repeatable" | "once";
/** The leader of the partition that the request names, the leader of the metadata, any node, or this connection. */
type To = "partition" | "controller" | "any";

interface Row<R extends string> {
  reply: R;
  to: To;
  effect: Effect;
  /** Its topic may be too new for the broker that is asked: NOT_FOUND is retried a few times. */
  retriesNotFound: boolean;
}

function row<R extends ReplyName>(reply: R, to: To, effect: Effect, retriesNotFound = false): Row<R> {
  return { reply, to, effect, retriesNotFound };
}

type RequestBody = Exclude<Request["body"], { case: undefined }>;
type ResponseBody = Exclude<Response["body"], { case: undefined }>;
type ReplyName = ResponseBody["case"];

export const OPERATIONS = {
  produce: row("produced", "partition", "once"),
  fetch: row("fetched", "partition", "read", true),
  listOffsets: row("offsetFound", "partition", "read", true),
  commitOffset: row("offsetCommitted", "partition", "repeatable"),
  readOffset: row("offsetCommitted", "partition", "read"),
  trimPartition: row("partitionTrimmed", "partition", "repeatable"),
  getMetadata: row("metadata", "any", "read"),
  createTopic: row("topicReply", "controller", "once"),
  alterTopic: row("topicReply", "controller", "repeatable"),
  deleteTopic: row("topicReply", "controller", "once"),
  initCluster: row("clusterReply", "any", "repeatable"),
  joinCluster: row("clusterReply", "controller", "repeatable"),
  enterCluster: row("clusterReply", "any", "repeatable"),
  removeNode: row("clusterReply", "controller", "repeatable"),
  createJoinToken: row("done", "controller", "repeatable"),
  upgradeCluster: row("clusterUpgraded", "controller", "repeatable"),
  drainNode: row("done", "controller", "repeatable"),
  rebalance: row("movesPlanned", "controller", "repeatable"),
  cancelMoves: row("movesPlanned", "controller", "repeatable"),
  describeReplicas: row("replicasDescribed", "partition", "read", true),
  describeNode: row("nodeDescribed", "any", "read"),
  readHistory: row("historyRead", "any", "read"),
  transferLeadership: row("done", "partition", "once"),
  poll: row("polled", "partition", "read"),
  settle: row("settled", "partition", "repeatable"),
  extend: row("settled", "partition", "repeatable"),
  withdraw: row("done", "any", "repeatable"),
  subscribe: row("pushed", "partition", "read"),
  addCredit: row("done", "any", "once"),
  unsubscribe: row("done", "any", "repeatable"),
  leaveQueue: row("done", "partition", "repeatable"),
  ping: row("done", "any", "read"),
  cancelRecords: row("recordsCancelled", "partition", "repeatable"),
  readResults: row("resultsRead", "partition", "read"),
  listGroups: row("groupList", "partition", "read"),
  describeGroup: row("groupDescription", "partition", "read"),
  resetGroup: row("groupReset", "partition", "once"),
  deleteGroup: row("done", "partition", "repeatable"),
  alterGroup: row("groupReply", "controller", "repeatable"),
  expireGroup: row("groupUse", "partition", "repeatable"),
  explainMessage: row("explanation", "partition", "read"),
  takeTokens: row("tokensGranted", "partition", "repeatable"),
  stage: row("staged", "partition", "repeatable"),
  stageSettlement: row("staged", "partition", "repeatable"),
  commitTransaction: row("transactionDecided", "controller", "repeatable"),
  abortTransaction: row("transactionDecided", "controller", "repeatable"),
  transactionOutcome: row("transactionShown", "partition", "read"),
  listTransactions: row("transactionList", "controller", "read"),
  listOpenTransactions: row("openTransactionList", "partition", "read"),
  forgetTransaction: row("done", "controller", "repeatable"),
  joinGroup: row("groupAssignment", "controller", "read"),
  heartbeat: row("groupAssignment", "controller", "read"),
  leaveGroup: row("done", "controller", "read"),
  claimPartition: row("offsetCommitted", "partition", "read", true),
  describeStreamGroup: row("streamGroupDescription", "controller", "read"),
  listStreamGroups: row("streamGroupList", "controller", "read"),
  fenceGroup: row("groupAssignment", "controller", "repeatable"),
  forgetGroup: row("done", "controller", "repeatable"),
  createSchedule: row("scheduleReply", "controller", "once"),
  pauseSchedule: row("scheduleReply", "controller", "repeatable"),
  deleteSchedule: row("scheduleReply", "controller", "once"),
  runSchedule: row("scheduleReply", "controller", "once"),
  listSchedules: row("scheduleList", "controller", "read"),
  createUser: row("done", "controller", "once"),
  setPassword: row("done", "controller", "repeatable"),
  deleteUser: row("done", "controller", "once"),
  createAdministrator: row("done", "any", "once"),
  listUsers: row("userList", "controller", "read"),
  grantAccess: row("done", "controller", "repeatable"),
  revokeAccess: row("done", "controller", "once"),
  listGrants: row("grantList", "controller", "read"),
  assignRole: row("done", "controller", "repeatable"),
  unassignRole: row("done", "controller", "once"),
  listRoles: row("roleList", "controller", "read"),
  setQuota: row("done", "controller", "repeatable"),
  removeQuota: row("done", "controller", "once"),
  listQuotas: row("quotaList", "controller", "read"),
};

export type Operation = keyof typeof OPERATIONS;

/** A message of the contract as callers write it: numbers in place of 64-bit integers, and any field may be missing. */
export type Fields<T> = T extends bigint
  ? number | bigint
  : T extends Uint8Array
    ? Uint8Array
    : T extends readonly (infer Item)[]
      ? Fields<Item>[]
      : T extends object
        ? { [Name in Exclude<keyof T, "$typeName" | "$unknown">]?: Fields<T[Name]> }
        : T;

export type RequestFields<O extends string> = Fields<Extract<RequestBody, { case: O }>["value"]>;

/** Replies that have more than the fields of the contract: what follows the envelope, and columns as rows. */
interface Special {
  fetched: { batches: Buffer[]; logStart: number; nextOffset: number; reached: number };
  polled: { deliveries: Delivery[]; visibilityMs: number; retryAfterMs: number; lag: number };
  pushed: { deliveries: Delivery[]; visibilityMs: number; lag?: number; leftPartitions: number[] };
  settled: { expired: LeaseRange[]; settled: LeaseRange[]; term: number };
  explanation: Plain<Extract<ResponseBody, { case: "explanation" }>["value"]> & { batch: Buffer };
}

type ReplyNamed<R> = R extends keyof Special ? Special[R] : Plain<Extract<ResponseBody, { case: R }>["value"]>;
export type Reply<O extends Operation> = ReplyNamed<(typeof OPERATIONS)[O]["reply"]>;
export type { Deliveries };
