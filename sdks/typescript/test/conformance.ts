/**
 * Plays `conformance/*.json` at a broker through the codec and one connection of this client, and prints the outcome of
 * each scenario as a line of JSON. The meaning of every word stands in conformance/README.md.
 *
 *     node build/conformance.js ../../conformance
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { BatchView } from "../dist/codec/batch-view.js";
import { encodeBatch } from "../dist/codec/batch-writer.js";
import { type Compression } from "../dist/codec/compression.js";
import { crc32c } from "../dist/codec/crc32c.js";
import { OPERATIONS, type Operation } from "../dist/codec/operations.js";
import type { WireRecord } from "../dist/codec/record.js";
import { leaseColumns } from "../dist/codec/values.js";
import { Call } from "../dist/core/call.js";
import { Link } from "../dist/core/link.js";
import { FlotillaError, UnsupportedError } from "../dist/errors.js";
import { eventually, Node } from "./node.js";
import { camel, type Fields, isBytes, type Json, match, Mismatch, show, substitute, toBytes, type Variables } from "./scenario.js";

type Step = { do?: string; with?: Fields; expect?: Json; expect_error?: string; bind?: Record<string, string>; as?: string; await?: string; eventually?: boolean };

const STEP_MS_MAX = 30_000;
const PAUSE_MS = 10;
/** A leader may still be on its way, and certainly nothing was done. */
const PASSING = ["NOT_LEADER", "UNAVAILABLE", "OVERLOADED"];
/** What fields are that a scenario leaves out, where that is not nothing. */
const DEFAULTS: Record<string, Record<string, unknown>> = {
  poll: { maxMessages: 16, maxBytes: 8 * 1024 * 1024 },
  settle: { delayMs: -1 },
  pauseSchedule: { isPaused: true },
  drainNode: { isDraining: true },
  listSchedules: { upcoming: 1 },
  listTransactions: { limit: 1000 },
};
const DEFINITION = { missed: "one", missedMax: 100 };
let scenarios = 0;

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

// Values.

function toRecord(fields: Fields): WireRecord {
  const number = (name: string): number => (fields[name] as number | undefined) ?? 0;
  const bytes = (name: string): Buffer | undefined => (fields[name] === undefined || fields[name] === null ? undefined : toBytes(fields[name]));
  return {
    payload: bytes("payload")!, key: bytes("key"), idempotencyKey: bytes("idempotency_key"),
    headers: ((fields.headers ?? []) as [string, Json][]).map(([name, value]) => [name, toBytes(value)] as const),
    timestampMs: number("timestamp_ms"), priority: number("priority"), contentType: number("content_type"),
    deliverAtMs: number("deliver_at_ms"), ttlMs: number("ttl_ms"), maxDeliveries: number("max_deliveries"),
  };
}

/** A batch as a client would send it, then with everything overwritten that the scenario says. */
function toBatch(batch: Fields): Buffer {
  if ("raw" in batch) return toBytes(batch.raw);
  const numbers = {
    producerId: BigInt((batch.producer_id as number | undefined) ?? 0),
    epoch: (batch.producer_epoch as number | undefined) ?? 0,
    sequence: (batch.sequence as number | undefined) ?? 0,
  };
  const compression = ((batch.compression as string | undefined) ?? "none") as Compression;
  const data = encodeBatch((batch.records as Fields[]).map(toRecord), compression, numbers);
  for (const [position, value] of (batch.overwrite ?? []) as [number, Json][]) data.set(toBytes(value), position);
  if (batch.reseal) data.writeUInt32LE(crc32c(data.subarray(20)), 16);
  return data;
}

// One connection.

class Connection {
  readonly #opened: Promise<void>;
  readonly #link: Link;

  constructor(address: string) {
    let open!: () => void;
    let fail!: (error: Error) => void;
    this.#opened = new Promise((resolve, reject) => {
      open = resolve;
      fail = reject;
    });
    this.#link = new Link(address, Infinity, { name: "conformance", tls: undefined, credentials: undefined }, {
      opened: () => open(),
      answered: (_, answers) => {
        for (const [call, answer] of answers) call.done(answer as never);
      },
      lost: (_, error) => fail(error),
    });
  }

  async call(operation: Operation, fields: Fields, attachment?: Buffer): Promise<unknown> {
    return (await this.send(operation, fields, attachment)).next();
  }

  /** Sends a request; its answers come one after the other. */
  async send(operation: Operation, fields: Fields, attachment?: Buffer): Promise<Answers> {
    await this.#opened;
    const answers = new Answers();
    const options = { deadlineMs: Infinity, attachment };
    const call = new Call(operation, fields as never, options, ((answer: unknown) =>
      answers.add(answer instanceof FlotillaError ? answer : (answer as { value: unknown }).value)) as never);
    try {
      this.#link.send(call as unknown as Call, 0);
      answers.correlationId = call.correlationId;
    } catch (error) {
      answers.add(error);
    }
    return answers;
  }

  close(): void {
    this.#link.close();
  }
}

/** The answers to one request: a subscription has many. */
class Answers {
  correlationId = 0;
  readonly #come: unknown[] = [];
  #wake: () => void = () => undefined;

  add(answer: unknown): void {
    this.#come.push(answer);
    this.#wake();
  }

  async next(): Promise<unknown> {
    while (!this.#come.length) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.#come.shift();
  }
}

// One scenario.

class Play {
  readonly #variables: Variables;
  readonly #batches = new Map<string, Buffer>();
  readonly #started = new Map<string, Answers>();

  constructor(private readonly connection: Connection) {
    const number = ++scenarios;
    this.#variables = { topic: `ts-topic-${number}`, other: `ts-other-${number}`, group: `ts-group-${number}` };
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const [at, step] of steps.entries()) {
      const untilMs = performance.now() + STEP_MS_MAX;
      try {
        await this.#step(step, untilMs);
      } catch (error) {
        if (error instanceof UnsupportedError) throw error;
        throw new Error(`step ${at + 1}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }

  async #step(step: Step, untilMs: number): Promise<void> {
    if (step.await !== undefined) {
      this.#check(step, await this.#started.get(step.await)!.next());
      return;
    }
    if (step.as !== undefined) {
      this.#started.set(step.as, await this.#send(step));
      // Requests of one connection are begun in order: when the ping is answered, the broker has begun with this one.
      await this.connection.call("ping", {});
      return;
    }
    for (;;) {
      const answer = await (await this.#send(step)).next();
      try {
        this.#check(step, answer);
        return;
      } catch (error) {
        const isPassing = answer instanceof FlotillaError && PASSING.includes(answer.code);
        if (!(error instanceof Mismatch) || (!step.eventually && !isPassing) || performance.now() > untilMs) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  #send(step: Step): Promise<Answers> {
    const operation = camel(step.do!) as Operation;
    if (!(operation in OPERATIONS)) throw new UnsupportedError(`there is no operation ${operation}`);
    const given = substitute(step.with ?? {}, this.#variables) as Fields;
    let attachment: Buffer | undefined;
    const fields: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(given)) {
      if (name === "batch") {
        attachment = toBatch(value as Fields);
        const sent = (value as Fields).name;
        if (typeof sent === "string") this.#batches.set(sent, attachment);
      } else if (name === "subscription") fields[name] = this.#started.get(value as string)!.correlationId;
      else fields[camel(name)] = toField(name, value, operation);
    }
    return this.connection.send(operation, { ...DEFAULTS[operation], ...fields } as Fields, attachment);
  }

  #check(step: Step, answer: unknown): void {
    if (answer instanceof FlotillaError) {
      if (answer.code !== step.expect_error) throw new Mismatch(`${answer.code}: ${answer.message}`);
      return;
    }
    if (step.expect_error !== undefined) throw new Mismatch(`${step.expect_error} was expected, not ${show(answer)}`);
    const found = this.#plain(answer) as Variables;
    match(substitute(step.expect ?? {}, this.#variables), found);
    for (const [name, path] of Object.entries(step.bind ?? {})) {
      this.#variables[name] = path.split(".").reduce((value: unknown, key) => (value as Variables)[key], found);
    }
  }

  /** A reply as a file could hold it. */
  #plain(value: unknown): unknown {
    if (value instanceof Uint8Array || typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => this.#plain(item));
    const found = value as Variables;
    if ("leaseId" in found && "end" in found) return [found.leaseId, found.first, found.end];
    if (found.batch instanceof Buffer && "leaseId" in found) {
      const { batch, ...rest } = found as { batch: Buffer };
      return { ...(this.#plain(rest) as object), ...this.#plainBatch(batch) };
    }
    if (Array.isArray(found.batches) && "nextOffset" in found) {
      const { batches, ...rest } = found as { batches: Buffer[] };
      return { ...(this.#plain(rest) as object), batches: batches.map((batch) => this.#plainBatch(batch)) };
    }
    if ("epochs" in found) {
      const { partitions, epochs, ...rest } = found as { partitions: number[]; epochs: number[] };
      return { ...(this.#plain(rest) as object), partitions: partitions.map((number, at) => [number, epochs[at]]) };
    }
    if ("knownPositions" in found) {
      const { knownPositions, knownOffsets, ...rest } = found as { knownPositions: number[]; knownOffsets: number[] };
      return { ...(this.#plain(rest) as object), known: knownPositions.map((at, index) => [at, knownOffsets[index]]) };
    }
    if ("producerIds" in found) {
      const { producerIds, producerSequences, baseOffsets, ...rest } = found as { producerIds: bigint[]; producerSequences: number[]; baseOffsets: number[] };
      const batches = producerIds.map((id, at) => ({ producer_id: Number(id), producer_sequence: producerSequences[at], base_offset: baseOffsets[at] }));
      return { ...(this.#plain(rest) as object), batches };
    }
    return Object.fromEntries(Object.entries(found).map(([name, item]) => [snake(name), this.#plain(item)]));
  }

  #plainBatch(batch: Buffer): Fields {
    const view = new BatchView(batch);
    const records = Array.from({ length: view.count }, (_, at) => ({
      payload: view.payload(at), key: view.key(at) ?? null, headers: view.headers(at).map((pair) => [...pair]),
      timestamp_ms: view.timestampMs(at), priority: view.priority, content_type: view.contentType(at),
      deliver_at_ms: view.deliverAtMs, ttl_ms: view.ttlMs(at), max_deliveries: view.maxDeliveries(at),
      idempotency_key: view.idempotencyKey(at) ?? Buffer.alloc(0),
    }));
    const sent = [...this.#batches].find(([, known]) => Buffer.compare(known.subarray(12), batch.subarray(12)) === 0);
    return { base_offset: view.baseOffset, count: view.count, records, same_as: sent?.[0] ?? null } as unknown as Fields;
  }
}

function toField(name: string, value: Json, operation: Operation): unknown {
  if (name === "leases") {
    return leaseColumns((value as unknown as [bigint | number, number, number][]).map(([leaseId, first, end]) => ({ leaseId: BigInt(leaseId), first, end })));
  }
  if (name === "headers") return (value as [string, Json][]).map(([each, data]) => ({ name: each, value: toBytes(data) }));
  if (name === "results") return (value as [number, Json][]).map(([offset, payload]) => ({ offset, payload: toBytes(payload), isKept: true }));
  if (name === "start") return { kind: (value as number[])[0], value: (value as number[])[1] ?? 0 };
  if (name === "keys") return (value as Json[]).map(toBytes);
  if (name === "digest") return toBytes(value);
  if (isBytes(value)) return toBytes(value).toString();
  if (name === "partitions" && (operation === "commitTransaction" || operation === "abortTransaction")) {
    return (value as [string, number][]).map(([topic, number]) => ({ topic, number }));
  }
  if (name === "members" && operation === "commitTransaction") {
    return (value as [string, number[]][]).map(([transactionId, partitions]) => ({ transactionId, partitions }));
  }
  if (name === "settings" || name === "nodes" || typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const inner = Object.fromEntries(Object.entries(value).map(([key, item]) => [camel(key), toInner(key, item)]));
  return name === "definition" ? { ...DEFINITION, ...inner } : inner;
}

/** A field of a definition, a verifier or a grant. */
function toInner(name: string, value: Json): unknown {
  if (["payload", "key", "salt", "stored_key", "server_key"].includes(name)) return toBytes(value);
  if (name === "headers") return (value as [string, Json][]).map(([each, data]) => ({ name: each, value: toBytes(data) }));
  return value;
}

const [folder, only] = process.argv.slice(2) as [string, string?];
const node = await new Node(["--cluster-name", "conformance"]).start();
const first = new Connection(node.address);
await eventually(async () => ((await first.call("getMetadata", {})) as { brokers?: unknown[] }).brokers?.length);
first.close();
for (const file of readdirSync(folder).filter((name) => name.endsWith(".json")).sort()) {
  // Integers that a number cannot hold are read as they are.
  const text = readFileSync(join(folder, file), "utf8").replace(/([:[,] *)(\d{16,})/g, '$1"@$2"');
  const big = (_: string, value: unknown): unknown =>
    typeof value === "string" && /^@\d+$/.test(value) ? BigInt(value.slice(1)) : value;
  const { scenarios: listed } = JSON.parse(text, big) as { scenarios: { name: string; steps: Step[] }[] };
  for (const { name, steps } of listed) {
    const scenario = `${file.replace(/\.json$/, "")}: ${name}`;
    if (only && !scenario.includes(only)) continue;
    const connection = new Connection(node.address);
    let outcome = "passed";
    try {
      await new Play(connection).run(steps);
    } catch (error) {
      outcome = error instanceof UnsupportedError ? "not offered" : `failed: ${error instanceof Error ? error.message : String(error)}`;
    }
    connection.close();
    console.log(JSON.stringify({ scenario, outcome }));
  }
}
await node.stop();
