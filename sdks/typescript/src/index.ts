/** The public names of the client. */

export { Client, type ClientOptions, type TopicInfo } from "./client.js";
export type { Admin, Action, Grant, Grants, Metadata, Quota, Quotas, RoleOfUser, Roles, UserInfo, Users } from "./admin/admin.js";
export type { DeadLetter, DeadLetterFilter, DeadLetters, Redriven, RunOptions } from "./admin/dead-letters.js";
export type { GroupInfo, GroupKind, PartitionOfGroup } from "./admin/groups.js";
export type { ScheduleInfo, Schedules, ScheduleSettings } from "./admin/schedules.js";
export type { Compression } from "./codec/compression.js";
export type { Headers } from "./codec/record.js";
export type { Credentials, CredentialsProvider, Password, Tls, Token } from "./core/credentials.js";
export type { Limits } from "./core/time.js";
export * from "./errors.js";
export type { Filter, StartAt } from "./filter.js";
export { Message } from "./message.js";
export { type Bytes, ContentType, type HeadersInit, type RecordFields, type RecordInit } from "./producer/fields.js";
export type { ProducerSettings } from "./producer/options.js";
export { Delivery, type Receipt } from "./producer/pending-batch.js";
export { Producer } from "./producer/producer.js";
export { QueueMessage } from "./queue/message.js";
export type { QueueSettings } from "./queue/options.js";
export { Reject, Release, Retry } from "./queue/outcome.js";
export { Queue, type SettleOptions } from "./queue/queue.js";
export type { FetchSettings, ReadFrom } from "./reader/fetcher.js";
export { Reader, type ReaderSettings } from "./reader/reader.js";
export type { GroupSettings, Setting, TopicSettings } from "./settings.js";
export { Stream, type StreamSettings } from "./stream/stream.js";
export { type CommitRequest, type Committed, type Participant, type ShownBatch, Transaction } from "./transaction.js";
export { type Handler, Worker, type WorkerSettings } from "./worker.js";
