/** Takes an order and stores an invoice for it: both, or neither. */

import { Client } from "flotilla-mq";

const orders = process.env.TOPIC ?? "example-transaction";
const invoices = `${orders}-invoices`;
await using client = new Client(process.env.FLOTILLA_SERVERS ?? "127.0.0.1:7600");
for (const topic of [orders, invoices]) await client.createTopic(topic, { ifNotExists: true });
await client.produce(orders, "order 1");

await using queue = client.queue(orders, "billing");
const [order] = await queue.poll(1);
await using transaction = client.transaction();
transaction.ack(order!);
await transaction.produce(invoices, `invoice for ${order!.text}`);
await transaction.commit();

const [invoice] = await client.peek(invoices);
console.log(invoice!.text, `at offset ${transaction.receipts[0]!.offset}`);
