/**
 * Produces messages of 100 bytes without waiting for each, then drains them as one consumer; prints both rates.
 *
 *     node build/bench.js 127.0.0.1:7600 topic 100000
 */

import { Client } from "flotilla-mq";

const [address, name, count] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])];
const payload = Buffer.alloc(100, "x");
await using client = new Client(address);

async function measure(topic: string): Promise<{ producedPerS: number; drainedPerS: number }> {
  await client.createTopic(topic, { partitions: 1 });
  await client.produce(topic, payload);
  await using producer = client.producer(topic);
  let begunMs = performance.now();
  for (let at = 0; at < count; at++) await producer.send(payload);
  await producer.flush();
  const producedPerS = (count / (performance.now() - begunMs)) * 1000;
  await using queue = client.queue(topic, "drain");
  let left = count + 1;
  begunMs = performance.now();
  for await (const message of queue) {
    await message.ack({ wait: false });
    if (--left === 0) break;
  }
  await queue.flush();
  return { producedPerS, drainedPerS: (count / (performance.now() - begunMs)) * 1000 };
}

// Twice: a process that begins runs code that is not compiled yet.
await measure(`${name}-first`);
console.log(JSON.stringify(await measure(name)));
