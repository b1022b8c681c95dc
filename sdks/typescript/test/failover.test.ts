/** Three real nodes: what a client sees when a leader is killed. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client } from "flotilla-mq";

import { eventually, freePorts, Node } from "./node.js";

let nodes: Node[] = [];
let client: Client;

before(async () => {
  const ports = await freePorts(6);
  const peers = [1, 2, 3].map((id, at) => `${id}=127.0.0.1:${ports[at]}`).join(",");
  nodes = [1, 2, 3].map((id, at) => {
    const node = new Node(["--node-id", `${id}`, "--peers", peers, "--peer-listen", `127.0.0.1:${ports[at]}`]);
    node.address = `127.0.0.1:${ports[at + 3]}`;
    return node;
  });
  await Promise.all(nodes.map((node) => node.start()));
  client = new Client(nodes.map((node) => node.address));
});
after(async () => {
  await client.close();
  await Promise.all(nodes.map((node) => node.stop()));
});

async function newTopic(name: string): Promise<void> {
  await client.createTopic(name, { partitions: 1, replicationFactor: 3, timeoutMs: 60_000 });
  await client.produce(name, "first", { timeoutMs: 60_000 });
}

async function leaderOf(topic: string): Promise<Node> {
  return eventually(async () => {
    const { brokers, topics } = await client.admin.metadata([topic]);
    const address = brokers.find((broker) => broker.node === topics[0]?.partitions[0]?.leader)?.client;
    return nodes.find((node) => node.address === address);
  });
}

test("nothing is lost, doubled or reordered when the leader is killed in the middle of batches", async () => {
  await newTopic("orders");
  const leader = await leaderOf("orders");
  const producer = client.producer("orders", { batchRecords: 20, timeoutMs: 60_000 });
  const sent = [];
  for (let at = 0; at < 2000; at++) {
    sent.push(await producer.send(`${at}`));
    if (at === 1000) void leader.kill();
  }
  await producer.close();
  const offsets = await Promise.all(sent.map(async (delivery) => (await delivery.result()).offset));
  assert.deepEqual(offsets, offsets.map((_, at) => at + 1));
  const reader = client.reader("orders", { start: 1 });
  const found: string[] = [];
  while (found.length < 2000) for (const message of await reader.poll(2000, { waitMs: 30_000 })) found.push(message.text);
  assert.deepEqual(found, found.map((_, at) => `${at}`));
  await reader.close();
  await leader.start();
});

test("a lease is presented to the next leader: nobody else gets the message, and its ack counts", async () => {
  await newTopic("tasks");
  const queue = client.queue("tasks", "workers", { visibilityMs: 60_000 });
  const [message] = await queue.poll(1);
  const leader = await leaderOf("tasks");
  await leader.kill();
  const other = client.queue("tasks", "workers");
  assert.deepEqual(await other.poll(1, { waitMs: 4_000 }), []);
  await message!.ack();
  const again = await client.describeGroup("tasks", "workers");
  assert.equal(again.lag, 0);
  await Promise.all([queue.close(), other.close()]);
  await leader.start();
});
