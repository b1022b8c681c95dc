/** The client at one real node: every noun does what it says. */

import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import {
  AlreadyExistsError, Client, InvalidArgumentError, LeaseExpiredError, MessageFailedError, NotFoundError, OutcomeUnknownError,
  Reject, Release, Retry, StaleGenerationError, TopicReplacedError, TransactionEndedError, UnsupportedError,
} from "flotilla-mq";

import { Session } from "../dist/core/session.js";
import { eventually, Node } from "./node.js";

const node = new Node();
let client: Client;
let topics = 0;

before(async () => {
  await node.start();
  client = new Client(node.address, { name: "tests" });
});
after(async () => {
  await client.close();
  await node.stop();
});

/** A topic of its own for each test. */
async function newTopic(partitions = 1, settings = {}): Promise<string> {
  const { name } = await client.createTopic(`topic-${++topics}`, { partitions, settings });
  return name;
}

/** What a consumer does, however its messages come. */
function testBoth(name: string, body: (delivery: "poll" | "push") => Promise<void>): void {
  for (const delivery of ["poll", "push"] as const) test(`${name} (${delivery})`, () => body(delivery));
}

test("topics are created, described, altered and deleted", async () => {
  const topic = await newTopic(2, { maxDeliveries: 3, retentionMs: "7d" });
  await assert.rejects(client.createTopic(topic), AlreadyExistsError);
  assert.equal((await client.createTopic(topic, { ifNotExists: true })).name, topic);
  assert.equal((await client.describeTopic(topic)).settings.max_deliveries, "3");
  assert.equal((await client.alterTopic(topic, { partitions: 3 })).partitions.length, 3);
  assert.ok((await client.topics()).some(({ name }) => name === topic));
  await client.deleteTopic(topic);
  await assert.rejects(client.describeTopic(topic), NotFoundError);
  await assert.rejects(client.reader(topic).poll(), NotFoundError);
});

test("records come back with all their fields, in the order of their key", async () => {
  const topic = await newTopic(3);
  const receipt = await client.produce(topic, "one", {
    key: "k", headers: { a: "1", b: Buffer.from([255]) }, priority: 2, contentType: 200, timestampMs: 5,
  });
  const rest = await client.produceMany(topic, ["two", { payload: "three", key: "k", priority: 2 }], { key: "k", priority: 2 });
  assert.deepEqual(rest.map(({ partition, offset }) => [partition, offset]), [[receipt.partition, 1], [receipt.partition, 2]]);
  await using reader = client.reader(topic, { group: "readers" });
  const found = [];
  for await (const message of reader) if (found.push(message) === 3) break;
  const [first] = found;
  assert.deepEqual(found.map((message) => message.text), ["one", "two", "three"]);
  assert.equal(first!.key!.toString(), "k");
  assert.deepEqual(first!.header("b"), Buffer.from([255]));
  assert.deepEqual([first!.priority, first!.contentType, first!.timestampMs], [2, 200, 5]);
  assert.equal((await reader.commit()).get(receipt.partition), 3);
  assert.equal(await client.committedOffset(topic, "readers", receipt.partition), 3);
  await reader.seek("earliest");
  assert.equal((await reader.poll(1))[0]!.text, "one");
  assert.equal(await client.findOffset(topic, receipt.partition, "latest"), 3);
});

test("a reader commits nothing for a group that was deleted and made anew", async () => {
  const topic = await newTopic();
  await client.produceMany(topic, ["a", "b", "c"]);
  for (const start of [undefined, "earliest"] as const) {
    await using reader = client.reader(topic, { group: "g", start });
    await reader.poll(1, { waitMs: 5_000 });
    await reader.commit();
    await client.deleteGroup(topic, "g");
    await assert.rejects(reader.commit(), StaleGenerationError);
    assert.equal(await client.committedOffset(topic, "g", 0), undefined);
    await client.commitOffset(topic, "g", 0, 0);
    await assert.rejects(reader.commit(), StaleGenerationError);
    assert.equal(await client.committedOffset(topic, "g", 0), 0);
    await client.deleteGroup(topic, "g");
  }
});

test("a producer pipelines, keeps the order, and waits while its buffer is full", async () => {
  const topic = await newTopic();
  await using producer = client.producer(topic, { bufferBytesMax: 4096, compression: "lz4" });
  const deliveries = [];
  for (let at = 0; at < 1000; at++) deliveries.push(await producer.send(`message ${at}`));
  await producer.flush();
  const receipts = await Promise.all(deliveries.map((delivery) => delivery.result()));
  assert.deepEqual(receipts.map(({ offset }) => offset), receipts.map((_, at) => at));
  await assert.rejects(producer.send("x", { priority: 9 }), InvalidArgumentError);
  await using reader = client.reader(topic);
  let next = 0;
  for await (const message of reader) {
    assert.equal(message.text, `message ${next++}`);
    if (next === 1000) break;
  }
});

test("an idempotency key is stored once, also beside new records", async () => {
  const topic = await newTopic();
  const first = await client.produce(topic, "a", { idempotencyKey: "key" });
  const again = await client.produceMany(topic, [
    { payload: "b", idempotencyKey: "other" }, { payload: "a", idempotencyKey: "key" }, { payload: "c", idempotencyKey: "third" },
  ]);
  assert.deepEqual(again.map(({ duplicate }) => duplicate), [false, true, false]);
  assert.equal(again[1]!.offset, first.offset);
  assert.deepEqual((await client.peek(topic)).map((message) => message.text), ["a", "b", "c"]);
});

testBoth("messages are acknowledged, failed, released and rejected", async (delivery) => {
  const topic = await newTopic(1, { nackBackoffMs: 0 });
  await client.produceMany(topic, ["ack", "nack", "release", "reject"]);
  await using queue = client.queue(topic, "g", { delivery });
  const [ack, nack, release, reject] = await queue.poll(4);
  await ack!.ack();
  assert.ok(ack!.isSettled);
  await Promise.all([nack!.nack({ reason: "no luck", delayMs: 0 }), release!.release(), reject!.reject({ reason: "never" })]);
  const again = [];
  while (again.length < 2) again.push(...(await queue.poll(4)));
  assert.deepEqual(again.map((message) => [message.text, message.attempt]).sort(), [["nack", 2], ["release", 1]]);
  await queue.ack(again);
  assert.throws(() => client.queue(topic, ""), InvalidArgumentError);
  const info = await eventually(async () => {
    const found = await client.describeGroup(topic, "g");
    return found.lag === 0 && found.deadTotal === 1 && found;
  });
  assert.equal(info.kind, "queue");
  const letters = client.deadLetters(topic, "g");
  const [letter] = await eventually(async () => {
    const found = await letters.list();
    return found.length > 0 && found;
  });
  assert.deepEqual([letter!.payload.toString(), letter!.reason, letter!.originOffset], ["reject", "never", 3]);
  assert.deepEqual(await letters.redrive({ dryRun: true }), { done: 1, refused: 0, skipped: 0 });
  assert.deepEqual(await letters.redrive({ reason: /never/ }), { done: 1, refused: 0, skipped: 0 });
  const [redriven] = await queue.poll(1);
  assert.equal(redriven!.text, "reject");
  assert.deepEqual(await letters.list(), []);
});

testBoth("a lease is extended, and is lost when the group goes back", async (delivery) => {
  const topic = await newTopic();
  await client.produce(topic, "slow");
  await using queue = client.queue(topic, "g", { delivery, visibilityMs: 400 });
  const [message] = await queue.poll(1);
  await message!.extend(60_000);
  await client.resetGroup(topic, "g", "earliest");
  await assert.rejects(message!.ack(), LeaseExpiredError);
  await assert.rejects(message!.extend(1000), LeaseExpiredError);
});

testBoth("a poll after an iteration returns when its time is over", async (delivery) => {
  const topic = await newTopic(2);
  await client.produce(topic, "one");
  await using queue = client.queue(topic, "g", { delivery });
  await (await queue.next())!.ack();
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(new Error("the poll did not return")), 10_000);
  assert.deepEqual(await queue.poll(1, { waitMs: 50, signal: limit.signal }), []);
  clearTimeout(timer);
});

test("a message that the application has dropped is renewed no longer", async () => {
  const topic = await newTopic();
  await client.produce(topic, "dropped");
  await using queue = client.queue(topic, "g", { visibilityMs: 300 });
  const drop = async (): Promise<number> => (await queue.poll(1)).length;
  assert.equal(await drop(), 1);
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  await using other = client.queue(topic, "g");
  const [found] = await eventually(async () => {
    collect();
    const messages = await other.poll(1, { waitMs: 50 });
    return messages.length > 0 && messages;
  });
  assert.equal(found!.attempt, 2);
});

testBoth("an iteration ends with its consumer, and gives back what it holds", async (delivery) => {
  const topic = await newTopic();
  await client.produceMany(topic, Array.from({ length: 50 }, (_, at) => `${at}`));
  const queue = client.queue(topic, "g", { delivery });
  let count = 0;
  for await (const message of queue) {
    await message.ack({ wait: false });
    if (++count === 10) await queue.close();
  }
  assert.equal(count, 10);
  await using second = client.queue(topic, "g", { delivery });
  const left = [];
  while (left.length < 40) left.push(...(await second.poll(100)));
  assert.deepEqual(left.map((message) => message.attempt), left.map(() => 1));
});

testBoth("a worker handles so many at a time, and drains when it is stopped", async (delivery) => {
  const topic = await newTopic(1, { nackBackoffMs: 0, maxDeliveries: 2 });
  await client.produceMany(topic, ["fine", "retry", "reject", "release", "broken"]);
  const seen: string[] = [];
  let most = 0;
  await using worker = client.worker(
    topic,
    "g",
    async (message) => {
      seen.push(`${message.text} ${message.attempt}`);
      most = Math.max(most, worker.runningCount);
      await new Promise((resolve) => setTimeout(resolve, 5));
      if (message.text === "reject") throw new Reject("bad");
      if (message.text === "retry" && message.attempt === 1) throw new Retry(0);
      if (message.text === "release" && seen.filter((each) => each.startsWith("release")).length === 1) throw new Release();
      if (message.text === "broken") throw new Error("broken");
      return Buffer.from("done");
    },
    { concurrency: 2, delivery },
  );
  await eventually(async () => (await client.describeGroup(topic, "g").catch(() => undefined))?.lag === 0);
  assert.deepEqual(
    [...seen].sort(),
    ["broken 1", "broken 2", "fine 1", "reject 1", "release 1", "release 1", "retry 1", "retry 2"],
  );
  assert.ok(most <= 2);
  assert.deepEqual([worker.handledCount, worker.failedCount, worker.rejectedCount], [8, 3, 1]);
  await client.produce(topic, "last");
  await eventually(async () => seen.includes("last 1"));
  await worker.stop();
  assert.equal((await client.describeGroup(topic, "g")).lag, 0);
});

testBoth("an iteration is sent messages within its credit, and each settled one gives room for another", async (delivery) => {
  const topic = await newTopic();
  await client.produceMany(topic, ["a", "b", "c"]);
  await using queue = client.queue(topic, "g", { delivery, prefetch: 2 });
  const [a, b] = [await queue.next(), await queue.next()];
  assert.deepEqual([a!.text, b!.text], ["a", "b"]);
  const { leased, ready } = await client.describeGroup(topic, "g");
  assert.deepEqual([leased, ready], [2, 1]);
  await a!.ack();
  assert.equal((await queue.next())!.text, "c");
  // Nobody asks for this one.
  await b!.ack();
  await client.produce(topic, "d");
  await eventually(async () => (await client.describeGroup(topic, "g")).leased === 2);
});

testBoth("a consumer of several partitions gets all of them, and knows how many are behind", async (delivery) => {
  const topic = await newTopic(3);
  await using queue = client.queue(topic, "g", { delivery, prefetch: 4 });
  assert.deepEqual(await queue.poll(1, { waitMs: 0 }), []);
  for (let at = 0; at < 9; at++) await client.produce(topic, `${at}`, { partition: at % 3 });
  const seen = new Set<string>();
  while (seen.size < 9) {
    const found = await queue.poll(2);
    for (const message of found) seen.add(message.text);
    assert.ok(queue.behind! > 0);
    await queue.ack(found);
  }
});

test("pushed messages that are acknowledged on delivery come once", async () => {
  const topic = await newTopic();
  await client.produceMany(topic, ["a", "b"]);
  await using queue = client.queue(topic, "g", { delivery: "push", ackMode: "auto" });
  const seen = [];
  for await (const message of queue) if (seen.push(message.text) === 2) break;
  assert.deepEqual(seen, ["a", "b"]);
  assert.equal((await client.describeGroup(topic, "g")).ackedTotal, 2);
});

testBoth("a worker that is stopped handles all messages that were acknowledged on delivery", async (delivery) => {
  const topic = await newTopic();
  await client.produceMany(topic, Array.from({ length: 100 }, (_, at) => `${at}`));
  let begun = 0;
  let goOn!: () => void;
  const held = new Promise<void>((resolve) => (goOn = resolve));
  const handle = async (_: unknown, signal: AbortSignal): Promise<void> => {
    begun++;
    await held;
    assert.ok(!signal.aborted);
  };
  const worker = client.worker(topic, "g", handle, { delivery, ackMode: "auto", concurrency: 2, prefetch: 8 });
  await eventually(async () => begun === 2);
  const stopped = worker.stop();
  goOn();
  await stopped;
  const { ackedTotal } = await client.describeGroup(topic, "g");
  assert.ok(ackedTotal > 2 && ackedTotal < 100, `${ackedTotal}`);
  assert.deepEqual([worker.handledCount, worker.failedCount], [ackedTotal, 0]);
});

testBoth("an iteration gets all messages that were acknowledged on delivery, also while its consumer is closed", async (delivery) => {
  const topic = await newTopic(2);
  await using queue = client.queue(topic, "g", { delivery, ackMode: "auto", prefetch: 64 });
  const seen: string[] = [];
  let closing: Promise<void> | undefined;
  const producing = client.produceMany(topic, Array.from({ length: 200 }, (_, at) => `${at}`));
  for await (const message of queue) {
    seen.push(message.text);
    closing ??= queue.close();
  }
  await Promise.all([closing, producing]);
  assert.equal((await client.describeGroup(topic, "g")).ackedTotal, seen.length);
  assert.equal(new Set(seen).size, seen.length);
});

testBoth("a close sends what was acknowledged before, also when the client is closed meanwhile", async (delivery) => {
  const topic = await newTopic(2);
  const texts = Array.from({ length: 600 }, (_, at) => `${at}`);
  await client.produceMany(topic, texts);
  const other = new Client(node.address);
  const queue = other.queue(topic, "g", { delivery });
  for (const _ of texts) await (await queue.next())!.ack({ wait: false });
  await Promise.all([queue.close(), other.close(), other.close()]);
  assert.equal((await client.describeGroup(topic, "g")).ackedTotal, texts.length);
});

test("a producer that is being closed sends what it holds, also when the client is closed meanwhile", async () => {
  const topic = await newTopic();
  const other = new Client(node.address);
  const producer = other.producer(topic, { lingerMs: 1_000 });
  const delivery = await producer.send("held");
  await Promise.all([producer.close(), other.close()]);
  assert.equal((await delivery.result()).offset, 0);
});

test("messages are pushed within the credit and the bytes that the consumer gives", async () => {
  const topic = await newTopic();
  await client.produceMany(topic, Array.from({ length: 8 }, (_, at) => `${at}`.padEnd(1_000)));
  await using queue = client.queue(topic, "g", { delivery: "push", prefetch: 6, fetchBytes: 2_500 });
  const held = [await queue.next()];
  // A push may exceed the bytes by one message.
  assert.ok((await client.describeGroup(topic, "g")).leased <= 3);
  while (held.length < 6) held.push(await queue.next());
  assert.deepEqual(await queue.poll(1, { waitMs: 100 }), []);
  assert.equal((await client.describeGroup(topic, "g")).leased, 6);
  await held[0]!.ack();
  assert.equal((await queue.next())!.text.trim(), "6");
  assert.throws(() => client.queue(topic, "g", { delivery: "push", push: false }), InvalidArgumentError);
});

test("a consumer that has become slow is pushed less", async () => {
  const topic = await newTopic();
  const texts = Array.from({ length: 200 }, (_, at) => `${at}`);
  await client.produceMany(topic, texts);
  await using queue = client.queue(topic, "g", { delivery: "push" });
  for (let at = 0; at < 200; at++) await (await queue.next())!.ack({ wait: false });
  await queue.flush();
  await client.produceMany(topic, texts);
  const { leased } = await eventually(async () => {
    const found = await client.describeGroup(topic, "g");
    return found.leased > 0 && found;
  });
  assert.ok(leased > 32, `${leased}: the credit is that of a quick consumer`);
  await eventually(async () => {
    await (await queue.next())!.ack();
    return (await client.describeGroup(topic, "g")).leased <= 32;
  });
});

test("a request gets the result of the ack, or why there is none", async () => {
  const topic = await newTopic();
  await using _ = client.worker(topic, "workers", (message) => {
    if (message.text === "bad") throw new Reject("never");
    return Buffer.from(message.text.toUpperCase());
  });
  const results = await Promise.all(["a", "b", "c"].map((text) => client.request(topic, text)));
  assert.deepEqual(results.map(String), ["A", "B", "C"]);
  await assert.rejects(client.request(topic, "bad"), (error) => error instanceof MessageFailedError && error.reason === "never");
});

test("a message is acknowledged and followed by the next one, both or neither", async () => {
  const [topic, next] = [await newTopic(), await newTopic()];
  await client.produceMany(topic, ["one", "two"]);
  await using queue = client.queue(topic, "g");
  const [one, two] = await queue.poll(2);
  const receipt = await one!.followWith(next, "after one");
  assert.equal(receipt.topic, next);
  await using transaction = client.transaction();
  transaction.ack(two!);
  await transaction.stage(next, ["after two"]);
  assert.throws(() => transaction.receipts, TransactionEndedError);
  await transaction.abort();
  await using reader = client.reader(next);
  assert.deepEqual((await reader.poll()).map((message) => message.text), ["after one"]);
  const [again] = await queue.poll(1);
  assert.equal(again!.text, "two");
});

test("a transaction is visible in all topics at once, and a version is committed once", async () => {
  const [one, two] = [await newTopic(2), await newTopic()];
  for (const isRepeated of [false, true]) {
    const transaction = client.transaction();
    await transaction.produce(one, "a", { key: "k" });
    await transaction.stage(two, ["b", "c"]);
    assert.deepEqual(await client.reader(two, { start: "latest" }).poll(1, { waitMs: 0 }), []);
    await transaction.commit({ applicationId: "app", version: 1 });
    assert.equal(transaction.receipts.length, isRepeated ? 0 : 3);
  }
  assert.deepEqual((await client.peek(two)).map((message) => message.text), ["b", "c"]);
});

/** Brokers carry out calls of these operations as ever; `meanwhile` runs before their answers reach the client. */
function beforeAnswers(t: TestContext, operations: string[], meanwhile: (operation: string) => unknown): void {
  const { call } = Session.prototype;
  t.mock.method(Session.prototype, "call", async function (this: Session, ...given: Parameters<typeof call>) {
    const answer = await call.apply(this, given);
    if (operations.includes(given[0])) await meanwhile(given[0]);
    return answer;
  });
}

const STAGES = ["stage", "stageSettlement"];

test("a commit is refused when a topic is replaced after the stage", async () => {
  const [work, next, also] = [await newTopic(), await newTopic(), await newTopic()];
  await client.produce(work, "one");
  await using queue = client.queue(work, "g");
  for (const replaced of [next, work]) {
    const [message] = await queue.poll(1, { waitMs: 5_000 });
    const transaction = client.transaction();
    transaction.ack(message!);
    await transaction.produce(next, "after");
    await transaction.stage(also, ["after"]);
    await client.deleteTopic(replaced);
    await client.createTopic(replaced, { partitions: 1 });
    await assert.rejects(transaction.commit(), TopicReplacedError);
    assert.deepEqual([await client.peek(next), await client.peek(also)], [[], []]);
  }
});

test("a commit whose signal is aborted gives its messages back, without waiting", async (t) => {
  const [work, next] = [await newTopic(1, { visibilityMs: "10m" }), await newTopic()];
  await client.produce(work, "one");
  await using queue = client.queue(work, "g");
  for (const isOwn of [true, false]) {
    const [message] = await queue.poll(1, { waitMs: 10_000 });
    const aborted = new AbortController();
    const transaction = client.transaction(isOwn ? {} : { signal: aborted.signal });
    transaction.ack(message!);
    await transaction.stage(next, ["after"]);
    beforeAnswers(t, ["commitTransaction"], () => assert.fail("it was not asked to decide"));
    aborted.abort(new Error("gone"));
    await assert.rejects(transaction.commit(isOwn ? { signal: aborted.signal } : {}), /gone/);
    await assert.rejects(transaction.abort({ signal: aborted.signal }), /gone/);
    t.mock.restoreAll();
  }
  const [again] = await queue.poll(1, { waitMs: 10_000 });
  assert.equal(again?.attempt, 1);
  await again!.ack();
  assert.deepEqual(await client.peek(next), []);
});

test("what is added to a transaction while a stage is in flight is part of it", async (t) => {
  const [topic, work] = [await newTopic(), await newTopic()];
  await client.produceMany(work, ["one", "two"]);
  await using queue = client.queue(work, "g");
  const [one, two] = await queue.poll(2);
  const transaction = client.transaction();
  beforeAnswers(t, STAGES, (operation) => (operation === "stage" ? transaction.produce(topic, "b") : transaction.ack(two!)));
  transaction.ack(one!);
  await transaction.stage(topic, ["a"]);
  t.mock.restoreAll();
  await transaction.commit();
  assert.deepEqual((await client.peek(topic)).map((message) => message.text), ["a", "b"]);
  assert.deepEqual(transaction.receipts.map(({ offset }) => offset), [0, 1]);
  assert.equal((await client.describeGroup(work, "g")).ackedTotal, 2);
});

test("what is added to a transaction after a stage without an answer is part of it", async (t) => {
  const [topic, work] = [await newTopic(), await newTopic()];
  await client.produceMany(work, ["one", "two"]);
  await using queue = client.queue(work, "g");
  const [one, two] = await queue.poll(2);
  const transaction = client.transaction();
  beforeAnswers(t, STAGES, () => {
    throw new OutcomeUnknownError("the answer is lost");
  });
  transaction.ack(one!);
  await assert.rejects(transaction.stage(topic, ["a"]), OutcomeUnknownError);
  t.mock.restoreAll();
  // The message may be staged: to acknowledge it once more changes nothing.
  transaction.ack([one!, two!]);
  await transaction.produce(topic, "b");
  await transaction.commit();
  assert.deepEqual((await client.peek(topic)).map((message) => message.text), ["a", "b"]);
  assert.deepEqual(transaction.receipts.map(({ offset }) => offset), [0, 1]);
  assert.equal((await client.describeGroup(work, "g")).ackedTotal, 2);
});

test("a commit includes what was added before it, and nothing is added after it", async (t) => {
  const topic = await newTopic();
  // Another client does not know the topic yet: adding takes a request.
  await using other = new Client(node.address);
  const transaction = other.transaction();
  const adding = [transaction.produce(topic, "a"), transaction.stage(topic, ["b"]), transaction.stage(topic, ["c"])];
  let late: Promise<unknown> | undefined;
  beforeAnswers(t, ["commitTransaction"], () => {
    late = assert.rejects(transaction.produce(topic, "d"), TransactionEndedError);
    assert.throws(() => transaction.ack([]), TransactionEndedError);
  });
  await Promise.all([...adding, transaction.commit()]);
  await late!;
  assert.deepEqual((await client.peek(topic)).map((message) => message.text), ["a", "b", "c"]);
  assert.equal(transaction.receipts.length, 3);
  const failing = other.transaction();
  const refused = assert.rejects(failing.produce(topic, "e", { partition: 1 }), InvalidArgumentError);
  await assert.rejects(failing.commit(), InvalidArgumentError);
  await refused;
});

test("members of a stream share partitions, and go on where the group committed", async () => {
  const topic = await newTopic(4);
  for (let partition = 0; partition < 4; partition++) await client.produce(topic, `${partition}`, { partition });
  const assigned: number[] = [];
  const first = client.stream(topic, "g", { onAssign: (partitions) => void assigned.push(...partitions) });
  const seen = new Set<string>();
  while (seen.size < 4) for (const message of await first.poll()) seen.add(message.text);
  assert.deepEqual(assigned.sort(), [0, 1, 2, 3]);
  assert.deepEqual([...(await first.commit()).values()], [1, 1, 1, 1]);
  await using second = client.stream(topic, "g", { autoCommitMs: 50 });
  await eventually(async () => {
    await Promise.all([first.poll(10, { waitMs: 20 }), second.poll(10, { waitMs: 20 })]);
    return first.assignment.length === 2 && second.assignment.length === 2;
  });
  await first.close();
  await client.produce(topic, "new", { partition: 0 });
  for await (const message of second) {
    assert.equal(message.text, "new");
    break;
  }
  assert.equal((await client.describeGroup(topic, "g")).kind, "stream");
});

test("consumers get only what their filter names", async () => {
  const topic = await newTopic();
  await client.produceMany(topic, [{ payload: "eu", headers: { region: "eu" } }, { payload: "us", headers: { region: "us" } }]);
  await using queue = client.queue(topic, "g", { headers: { region: "us" } });
  assert.deepEqual((await queue.poll(10)).map((message) => message.text), ["us"]);
  await using reader = client.reader(topic, { headers: { region: "us" } });
  assert.deepEqual((await reader.poll()).map((message) => message.text), ["us"]);
});

test("groups are listed, paused, reset and deleted; messages are cancelled, explained, trimmed and purged", async () => {
  const topic = await newTopic(1);
  await client.produceMany(topic, ["a", "b", "c"]);
  await using queue = client.queue(topic, "g");
  await queue.ack(await queue.poll(1));
  assert.deepEqual([...(await client.groups(topic))], [["g", "queue"]]);
  assert.equal((await client.pauseGroup(topic, "g")).paused, "1");
  await client.resumeGroup(topic, "g");
  assert.equal((await client.explain(topic, "g", 0, 0)).state, "acked");
  assert.deepEqual(await client.cancel(topic, { partition: 0, offset: 2 }), [{ partition: 0, offset: 2 }]);
  assert.deepEqual((await client.resetGroup(topic, "g", "latest", { dryRun: true })).get(0)!.toOffset, 3);
  await queue.close();
  await client.deleteGroup(topic, "g");
  await assert.rejects(client.describeGroup(topic, "g"), NotFoundError);
  assert.deepEqual([...(await client.trim(topic, new Map([[0, 1]])))], [[0, 1]]);
  assert.deepEqual([...(await client.purge(topic))], [[0, 3]]);
});

test("schedules produce by themselves", async () => {
  const topic = await newTopic();
  const made = await client.schedules.create("every-second", topic, "tick", { everyMs: 1000 });
  assert.equal(made.definition!.everyMs, 1000);
  await client.schedules.pause("every-second");
  assert.ok((await client.schedules.get("every-second")).isPaused);
  await client.schedules.run("every-second");
  await using queue = client.queue(topic, "g");
  assert.equal((await queue.poll(1))[0]!.text, "tick");
  assert.equal((await client.schedules.list()).length, 1);
  await client.schedules.delete("every-second");
  await assert.rejects(client.schedules.get("every-second"), NotFoundError);
});

test("users, grants, roles and quotas are kept", async () => {
  const { users, grants, roles, quotas } = client.admin;
  await users.create("ann", "her password");
  await users.setPassword("ann", "another password");
  assert.deepEqual((await users.list()).map((user) => user.name), ["ann"]);
  await grants.add("ann", "produce", "orders");
  assert.deepEqual((await grants.list()).map(({ user, action }) => [user, action]), [["ann", "produce"]]);
  await grants.remove("ann", "produce", "orders");
  assert.deepEqual(await grants.list(), []);
  assert.deepEqual(await roles.list(), []);
  assert.deepEqual(await quotas.list(), []);
  await users.delete("ann");
  await assert.rejects(users.delete("ann"), NotFoundError);
});

test("the cluster is described", async () => {
  const metadata = await client.admin.metadata();
  assert.deepEqual(metadata.brokers.map((broker) => broker.client), [node.address]);
  assert.equal((await client.admin.describeNode()).node, 1);
});

test("a signal ends every wait with its reason", async () => {
  const topic = await newTopic();
  const reason = new Error("enough");
  const soon = (): AbortSignal => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 20);
    return controller.signal;
  };
  await using queue = client.queue(topic, "g");
  await assert.rejects(queue.poll(1, { signal: soon() }), reason);
  await assert.rejects(client.reader(topic).poll(1, { waitMs: 30_000, signal: soon() }), reason);
  await assert.rejects(client.stream(topic, "s").poll(1, { waitMs: 30_000, signal: soon() }), reason);
  const settings = { signal: soon() };
  for (const endless of [client.queue(topic, "i", settings), client.reader(topic, settings), client.stream(topic, "i-s", settings)]) {
    await assert.rejects(async () => {
      for await (const message of endless) assert.fail(message.text);
    }, reason);
  }
  await assert.rejects(client.topics({ signal: AbortSignal.abort(reason) }), reason);
  await client.produce(topic, "x");
  const [message] = await queue.poll(1);
  await assert.rejects(message!.followWith(topic, "y", { signal: AbortSignal.abort(reason) }), reason);
  await message!.followWith(topic, "y");
});

test("delays are kept, and what no broker takes is refused at once", async () => {
  const topic = await newTopic();
  const beforeMs = Date.now();
  await client.produce(topic, "later", { delayMs: 300 });
  await using queue = client.queue(topic, "g");
  assert.equal((await queue.poll(1))[0]!.text, "later");
  assert.ok(Date.now() - beforeMs >= 299);
  await assert.rejects(client.produce(topic, "x", { delayMs: 1, deliverAt: 2 }), InvalidArgumentError);
  await assert.rejects(client.produce(topic, 5 as unknown as string), InvalidArgumentError);
  if (!("zstdCompressSync" in (await import("node:zlib")))) {
    assert.throws(() => client.producer(topic, { compression: "zstd" }), UnsupportedError);
  }
});
