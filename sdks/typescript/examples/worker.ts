/** A worker with retries: it ends with SIGTERM, after the handlers that run. */

import { Client, Retry } from "flotilla-mq";

const topic = process.env.TOPIC ?? "example-worker";
await using client = new Client(process.env.FLOTILLA_SERVERS ?? "127.0.0.1:7600");
await client.createTopic(topic, { ifNotExists: true });
await client.produceMany(topic, ["ann", "bob"]);

const done: string[] = [];
const worker = client.worker(topic, "mailers", async (message) => {
  if (message.text === "bob" && message.attempt === 1) throw new Retry(0, "mailbox is busy");
  done.push(`${message.text} at attempt ${message.attempt}`);
  if (done.length === 2) process.kill(process.pid, "SIGTERM");
});
process.once("SIGTERM", () => void worker.stop());
await worker.done;
console.log(done.sort().join(", "));
