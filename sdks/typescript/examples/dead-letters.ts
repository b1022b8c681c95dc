/** A message fails for the last time, is looked at, and is sent again. */

import { Client } from "flotilla-mq";

const topic = process.env.TOPIC ?? "example-dead-letters";
await using client = new Client(process.env.FLOTILLA_SERVERS ?? "127.0.0.1:7600");
await client.createTopic(topic, { settings: { maxDeliveries: 1 }, ifNotExists: true });
await client.produce(topic, "ann");

await using queue = client.queue(topic, "mailers");
const [message] = await queue.poll(1);
await message!.nack({ reason: "no such address" });

const letters = client.deadLetters(topic, "mailers");
let found = await letters.list();
while (!found.length) found = await letters.list();
console.log(`${found[0]!.payload} died after ${found[0]!.attempts} attempt: ${found[0]!.reason}`);
console.log(`redriven: ${(await letters.redrive({ reason: "address" })).done}`);

const [again] = await queue.poll(1);
await again!.ack();
console.log(`${again!.text} is back`);
