/**
 * Produces messages of 100 bytes without waiting for each, then drains them as one consumer; prints both rates. As
 * sdks/typescript/test/bench.ts does it with Flotilla: twice, because a process that begins runs code that is not
 * compiled yet.
 *
 *     node measure.mjs nats nats://127.0.0.1:4222 name 100000
 *     node measure.mjs rabbitmq amqp://127.0.0.1:5672 name 100000
 */

const [product, address, name, text] = process.argv.slice(2);
const count = Number(text);
const payload = Buffer.alloc(100, "x");
const UNCONFIRMED_MAX = 4_000;
const PREFETCH = 1_000;
/** A server that syncs each message by itself confirms the last of them late where the disk is busy. */
const CONFIRM_MS_MAX = 600_000;
const ASK_MS_MAX = 60_000;

/** Sends all messages, with a bounded number that is not confirmed; `send` returns a promise of the confirmation. */
async function sendAll(send) {
  let unconfirmed = 0;
  let wake = () => undefined;
  let failure;
  const confirmed = () => {
    unconfirmed--;
    wake();
  };
  const failed = (error) => {
    failure = error;
    confirmed();
  };
  for (let at = 0; at < count && !failure; at++) {
    unconfirmed++;
    send().then(confirmed, failed);
    while (unconfirmed >= UNCONFIRMED_MAX) await new Promise((resolve) => (wake = resolve));
  }
  while (unconfirmed && !failure) await new Promise((resolve) => (wake = resolve));
  if (failure) throw failure;
}

async function rates(produce, drain) {
  let begunMs = performance.now();
  await produce();
  const producedPerS = (count / (performance.now() - begunMs)) * 1000;
  begunMs = performance.now();
  await drain();
  return { producedPerS, drainedPerS: (count / (performance.now() - begunMs)) * 1000 };
}

const MEASURES = {
  async nats(topic) {
    const { AckPolicy, connect, nanos } = await import("nats");
    const connection = await connect({ servers: address });
    const manager = await connection.jetstreamManager({ timeout: ASK_MS_MAX });
    await manager.streams.add({ name: topic, subjects: [topic] });
    await manager.consumers.add(topic, {
      durable_name: "drain", ack_policy: AckPolicy.Explicit, ack_wait: nanos(60_000), max_ack_pending: 20_000,
    });
    const stream = connection.jetstream({ timeout: ASK_MS_MAX });
    const found = await rates(
      () => sendAll(() => stream.publish(topic, payload, { timeout: CONFIRM_MS_MAX })),
      async () => {
        const consumer = await stream.consumers.get(topic, "drain");
        let left = count;
        for await (const message of await consumer.consume({ max_messages: PREFETCH })) {
          message.ack();
          if (--left === 0) break;
        }
        await connection.flush();
      },
    );
    await connection.close();
    return found;
  },
  async rabbitmq(topic) {
    const { connect } = await import("amqplib");
    const connection = await connect(address);
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue(topic, { durable: true, arguments: { "x-queue-type": "quorum" } });
    await channel.prefetch(PREFETCH);
    const send = () =>
      new Promise((resolve, reject) => {
        channel.sendToQueue(topic, payload, { persistent: true }, (error) => (error ? reject(error) : resolve()));
      });
    const found = await rates(
      () => sendAll(send),
      () =>
        new Promise((resolve) => {
          let left = count;
          void channel.consume(topic, (message) => {
            channel.ack(message);
            if (--left === 0) resolve();
          });
        }),
    );
    await connection.close();
    return found;
  },
};

await MEASURES[product](`${name}-first`);
console.log(JSON.stringify(await MEASURES[product](name)));
