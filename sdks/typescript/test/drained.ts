/**
 * A worker as a program: SIGTERM drains it. Its handler says what it does, and ends when a line comes.
 *
 *     node build/drained.js 127.0.0.1:7600 topic group
 */

import { once } from "node:events";

import { Client } from "flotilla-mq";

const [servers, topic, group] = process.argv.slice(2) as [string, string, string];
const client = new Client(servers);
const worker = client.worker(topic, group, async (message) => {
  console.log(`begun ${message.text}`);
  await once(process.stdin, "data");
  console.log(`ended ${message.text}`);
}, { concurrency: 1 });
process.once("SIGTERM", () => {
  console.log("stopping");
  void worker.stop();
});
await worker.done;
await client.close();
process.exit();
