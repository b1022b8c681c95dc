/** Stores records: one, many, and a stream of them without waiting for each. */

import { Client } from "flotilla-mq";

const topic = process.env.TOPIC ?? "example-produce";
await using client = new Client(process.env.FLOTILLA_SERVERS ?? "127.0.0.1:7600");
await client.createTopic(topic, { partitions: 3, ifNotExists: true });

const receipt = await client.produce(topic, JSON.stringify({ order: 1 }), { key: "ann", idempotencyKey: "order-1" });
const again = await client.produce(topic, JSON.stringify({ order: 1 }), { key: "ann", idempotencyKey: "order-1" });
console.log(`duplicate: ${again.duplicate}, same offset: ${again.offset === receipt.offset}`);

await using producer = client.producer(topic);
for (let order = 2; order <= 1000; order++) await producer.send(JSON.stringify({ order }));
await producer.flush();
console.log("stored 1000 records");
