/** Enqueues three tasks. */

import { Client } from "flotilla-mq";

const topic = process.env.TOPIC ?? "mails";
const client = new Client(process.env.FLOTILLA_SERVERS ?? "127.0.0.1:7600");
await client.createTopic(topic, { ifNotExists: true });
const receipts = await client.produceMany(topic, ["ann", "bob", "nobody"]);
console.log(`enqueued ${receipts.length}`);
await client.close();
