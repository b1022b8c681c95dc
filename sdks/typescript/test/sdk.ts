/**
 * Plays `conformance/sdk/*.json` with this client. Brokers and faults are those of a harness that answers at a control
 * address; it also gets the outcome of each scenario. The meaning of every word stands in conformance/README.md.
 *
 *     node build/sdk.js ../../conformance/sdk 127.0.0.1:40000
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";

import {
  Client, type Delivery, FlotillaError, OutcomeUnknownError, type Producer, type Queue, type QueueMessage, type Receipt,
  type Worker,
} from "flotilla-mq";

import { camel, type Fields, match, Mismatch, show, substitute, toBytes, type Variables } from "./scenario.js";

type Step = { do: string; with?: Fields; as?: string; start?: string; expect?: unknown; expect_error?: string; eventually?: boolean };
/** The ways in which queue consumers get messages. */
type Way = "poll" | "push";
type Scenario = { name: string; at: string; steps: Step[]; deliveries?: Way[] };
/** The fields of a step, and the name in its `as`. */
type Given = Record<
  "name" | "servers" | "ca" | "certificate" | "key" | "token" | "user" | "password" | "topic" | "group" | "payload" | "client" | "producer" |
    "queue" | "messages" | "call" | "worker" | "process" | "line" | "receipt",
  string
> & Record<"timeoutMs" | "replicationFactor" | "offset" | "count" | "waitMs" | "ms", number> & { payloads: unknown[]; result: unknown };

const STEP_MS_MAX = 60_000;
const PAUSE_MS = 20;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The same with every `texts` and `range` written out. */
function expanded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expanded);
  if (typeof value !== "object" || value === null) return value;
  const { texts, range } = value as { texts?: [number, number]; range?: [number, number] };
  const [first, end] = texts ?? range ?? [0, 0];
  const numbers = Array.from({ length: end - first }, (_, at) => first + at);
  if (texts) return numbers.map(String);
  if (range) return numbers;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expanded(item)]));
}

const camelKeys = (fields: Fields): object =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [camel(name), value]));

/** The control connection: one request at a time. */
class Harness {
  readonly #answers: AsyncIterator<string>;

  constructor(readonly socket: Socket) {
    this.#answers = createInterface(socket)[Symbol.asyncIterator]();
  }

  async ask(verb: string, fields: object = {}): Promise<Variables> {
    this.tell({ do: verb, with: fields });
    const { result, error } = JSON.parse((await this.#answers.next()).value as string) as { result?: Variables; error?: string };
    if (error !== undefined) throw new Error(`${verb}: ${error}`);
    return result!;
  }

  tell(line: object): void {
    this.socket.write(`${JSON.stringify(line)}\n`);
  }
}

/** What was sent since the last flush. */
class OpenProducer {
  #sent: Promise<Delivery>[] = [];

  constructor(readonly producer: Producer) {}

  async send(payloads: unknown[]): Promise<void> {
    for (const payload of payloads) {
      const sent = this.producer.send(toBytes(payload));
      this.#sent.push(sent);
      await sent;
    }
  }

  async flush(): Promise<number[]> {
    const sent = this.#sent.splice(0);
    return Promise.all(sent.map(async (delivery) => (await (await delivery).result()).offset));
  }

  close(): Promise<void> {
    return this.producer.close();
  }
}

/** A worker whose handlers wait until they may end. */
class HeldWorker {
  readonly begun: string[] = [];
  readonly #worker: Worker;
  #end!: () => void;
  readonly #mayEnd = new Promise<void>((resolve) => (this.#end = resolve));

  constructor(client: Client, topic: string, group: string, settings: object) {
    const handle = async (message: QueueMessage): Promise<void> => {
      this.begun.push(message.text);
      await this.#mayEnd;
    };
    this.#worker = client.worker(topic, group, handle, settings);
  }

  close(): Promise<void> {
    this.#end();
    return this.#worker.stop();
  }
}

/** A worker in a process of its own. */
class Program {
  readonly lines: string[] = [];
  hasEnded = false;
  readonly #gone: Promise<unknown>;

  constructor(readonly process: ChildProcess) {
    createInterface(process.stdout!).on("line", (line) => this.lines.push(line));
    this.#gone = once(process, "close").then(() => (this.hasEnded = true));
  }

  async close(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.#gone;
  }
}

/** One scenario. Everything that a step names is kept by its name, and closed at the end, the last one first. */
class Play {
  readonly #named = new Map<string, unknown>();
  readonly #calls = new Map<string, Promise<unknown>>();

  constructor(
    private readonly harness: Harness,
    private readonly variables: Variables,
    private readonly delivery: Way,
  ) {}

  async run(steps: readonly Step[]): Promise<void> {
    try {
      for (const [at, step] of steps.entries()) {
        await this.#step(step).catch((error: unknown) => {
          throw new Error(`step ${at + 1}: ${String(error)} in ${JSON.stringify(step)}`);
        });
      }
    } finally {
      await this.harness.ask("heal");
      for (const each of [...this.#named.values()].reverse()) {
        const { close } = each as { close?: () => Promise<void> };
        await close?.call(each).catch(() => undefined);
      }
    }
  }

  async #step(step: Step): Promise<void> {
    const fields = substitute(expanded(step.with ?? {}), this.variables) as Fields;
    const act = (): Promise<unknown> => {
      const verb = this.verbs[camel(step.do)];
      if (!verb) return this.harness.ask(step.do, fields);
      return (async () => verb({ ...camelKeys(fields), ...(step.as ? { name: step.as } : {}) } as Given))();
    };
    if (step.start) {
      this.#calls.set(step.start, act());
      return;
    }
    const untilMs = performance.now() + STEP_MS_MAX;
    for (;;) {
      try {
        await this.#check(step, act);
        return;
      } catch (error) {
        if (!(error instanceof Mismatch) || !step.eventually || performance.now() > untilMs) throw error;
      }
      await pause(PAUSE_MS);
    }
  }

  async #check(step: Step, act: () => Promise<unknown>): Promise<void> {
    let found;
    try {
      found = (await act()) ?? {};
    } catch (error) {
      if (!(error instanceof FlotillaError)) throw error;
      if (error.code !== step.expect_error) throw new Mismatch(`${error.code}: ${error.message}`);
      return;
    }
    if (step.expect_error !== undefined) throw new Mismatch(`${step.expect_error} was expected, not ${show(found)}`);
    match(substitute(expanded(step.expect ?? {}), this.variables), found);
  }

  #get<T>(name: string): T {
    return this.#named.get(name) as T;
  }

  get #client(): Client {
    return this.#get<Client>("client");
  }

  private readonly verbs: Record<string, (given: Given) => unknown> = {
    connect: ({ name, servers, timeoutMs = 60_000, ca, certificate, key, token, user, password }) => {
      const credentials = token ? { token } : user ? { user, password } : undefined;
      const tls = ca ? { ca, certificate, key } : undefined;
      this.#named.set(name, new Client(servers ?? (this.variables.servers as string), { timeoutMs, tls, credentials }));
    },
    createTopic: async ({ topic, replicationFactor = 1 }) => {
      const settings = { partitions: 1, replicationFactor };
      await this.#client.createTopic(topic, settings).catch((error: unknown) => {
        if (!(error instanceof OutcomeUnknownError)) throw error;
        // The controller was replaced meanwhile, as on a busy machine.
        return this.#client.createTopic(topic, { ...settings, ifNotExists: true });
      });
    },
    produce: async ({ topic, payload, client = "client", name, ...fields }) => {
      const receipt = await this.#get<Client>(client).produce(topic, payload, fields);
      this.#named.set(name, receipt);
      return { offset: receipt.offset, duplicate: receipt.duplicate };
    },
    openProducer: ({ name, topic, ...settings }) => {
      this.#named.set(name, new OpenProducer(this.#client.producer(topic, settings)));
    },
    send: ({ producer, payloads }) => this.#get<OpenProducer>(producer).send(payloads),
    flush: async ({ producer }) => ({ offsets: await this.#get<OpenProducer>(producer).flush() }),
    read: async ({ topic, offset }) => {
      const left = (await this.#client.findOffset(topic, 0, "latest")) - offset;
      await using reader = this.#client.reader(topic, { start: offset });
      const payloads: string[] = [];
      while (payloads.length < left) payloads.push(...(await reader.poll()).map((message) => message.text));
      return { payloads };
    },
    openQueue: ({ name, topic, group, ...settings }) => {
      this.#named.set(name, this.#client.queue(topic, group, { ...settings, delivery: this.delivery }));
    },
    poll: async ({ queue, count, waitMs, name = `${queue}, polled` }) => {
      const messages: QueueMessage[] = [];
      const untilMs = performance.now() + waitMs;
      while (messages.length < count && performance.now() < untilMs) {
        const leftMs = Math.max(untilMs - performance.now(), 0);
        messages.push(...(await this.#get<Queue>(queue).poll(count - messages.length, { waitMs: leftMs })));
      }
      // Also those that nobody names: a message that is dropped is not renewed.
      this.#named.set(name, messages);
      return { messages: messages.map(({ text, attempt }) => ({ payload: text, attempt })) };
    },
    ack: async ({ messages }) => {
      for (const message of this.#get<QueueMessage[]>(messages)) await message.ack();
    },
    commitAcks: async ({ messages, result }) => {
      await using transaction = this.#client.transaction();
      for (const message of this.#get<QueueMessage[]>(messages)) transaction.ack(message, { result: toBytes(result) });
      await transaction.commit();
    },
    result: async ({ receipt, group }) => ({ payload: await this.#client.result(this.#get<Receipt>(receipt), { group }) }),
    wait: async ({ call, ms }) => {
      const ended = this.#calls.get(call)!.then((result) => ({ hasEnded: true, result }));
      // The time that is left does not keep the process.
      const late = new Promise<void>((resolve) => setTimeout(resolve, ms).unref());
      const { hasEnded, result } = await Promise.race([ended, late.then(() => ({ hasEnded: false, result: {} }))]);
      return { has_ended: hasEnded, ...(result as object) };
    },
    close: ({ name }) => this.#get<{ close(): Promise<void> }>(name).close(),
    describeGroup: async ({ topic, group }) => {
      const { lag, ackedTotal } = await this.#client.describeGroup(topic, group);
      return { lag, acked_total: ackedTotal };
    },
    startWorker: ({ name, topic, group, ...settings }) => {
      this.#named.set(name, new HeldWorker(this.#client, topic, group, { ...settings, delivery: this.delivery }));
    },
    describeWorker: ({ worker }) => ({ begun: this.#get<HeldWorker>(worker).begun }),
    finish: ({ worker }) => this.#get<HeldWorker>(worker).close(),
    startProcess: ({ name, topic, group }) => {
      const words = [join(import.meta.dirname, "drained.js"), this.variables.servers as string, topic, group];
      this.#named.set(name, new Program(spawn(process.execPath, words, { stdio: ["pipe", "pipe", "inherit"] })));
    },
    describeProcess: ({ process }) => {
      const { lines, hasEnded } = this.#get<Program>(process);
      return { lines, has_ended: hasEnded };
    },
    terminate: ({ process }) => void this.#get<Program>(process).process.kill("SIGTERM"),
    tell: ({ process, line }) => void this.#get<Program>(process).process.stdin!.write(`${line}\n`),
  };
}

const [folder, control] = process.argv.slice(2) as [string, string];
const [host, port] = control.split(":") as [string, string];
const harness = new Harness(connect(Number(port), host));
for (const file of readdirSync(folder).filter((name) => name.endsWith(".json")).sort()) {
  const { scenarios } = JSON.parse(readFileSync(join(folder, file), "utf8")) as { scenarios: Scenario[] };
  for (const { name, at, steps, deliveries = ["poll" as Way] } of scenarios) {
    for (const delivery of deliveries) {
      let result = "passed";
      try {
        await new Play(harness, await harness.ask("begin", { at, protocol: "tcp" }), delivery).run(steps);
      } catch (error) {
        result = `failed: ${String(error)}`;
      }
      const scenario = `${file.replace(/\.json$/, "")}: ${name}${delivery === "push" ? " (push)" : ""}`;
      harness.tell({ scenario, result });
    }
  }
}
harness.socket.end();
