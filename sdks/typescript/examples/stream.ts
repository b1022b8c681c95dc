/** Reads a topic as a member of a group, in order, and commits how far it is. */

import { Client } from "flotilla-mq";

const topic = process.env.TOPIC ?? "example-stream";
await using client = new Client(process.env.FLOTILLA_SERVERS ?? "127.0.0.1:7600");
await client.createTopic(topic, { partitions: 2, ifNotExists: true });
await client.produceMany(topic, Array.from({ length: 10 }, (_, at) => `${at}`), { key: "ann" });

await using stream = client.stream(topic, "reports");
const seen: string[] = [];
for await (const message of stream) {
  seen.push(message.text);
  if (seen.length === 10) break;
}
console.log(`in order: ${seen.join("") === "0123456789"}`);
const committed = await stream.commit();
console.log(`committed: ${Math.max(...committed.values())}`);
