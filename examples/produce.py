"""Produce records: one, many in one call, and a steady stream of them in the background.

Run a broker (`flotilla serve`), then `python examples/produce.py`.
"""

import json
import os

from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-produce"

with Client(SERVERS) as client:
    client.create_topic(TOPIC, partitions=3, if_not_exists=True)

    # One record. The call returns when a majority of the replicas has it on disk.
    order = json.dumps({"order": 1, "total": 30}).encode()
    receipt = client.produce(TOPIC, order, key=b"customer-7", headers={"schema": b"order.v1"})
    print(f"stored in partition {receipt.partition} at offset {receipt.offset}")
    (message,) = client.peek(TOPIC, receipt.partition, offset=receipt.offset, max_messages=1)
    print(f"read back: {message.json()}, schema {message.header('schema')!r}")

    # The same idempotency key again: nothing is stored, and the first offset comes back.
    first = client.produce(TOPIC, b"welcome", idempotency_key="welcome-7")
    again = client.produce(TOPIC, b"welcome", idempotency_key="welcome-7")
    print(f"duplicate: {again.duplicate}, same offset: {again.offset == first.offset}")

    # Many records in one call. Records without a key share a partition; give them keys to spread them.
    receipts = client.produce_many(TOPIC, [b"line %d" % number for number in range(1_000)])
    print(f"stored {len(receipts)} records")

    # A producer sends in the background: send() returns a future at once, and records travel in batches.
    with client.producer(TOPIC, linger_ms=5) as producer:
        futures = [producer.send(b"event %d" % number, key=b"%d" % number) for number in range(1_000)]
    partitions = {future.result().partition for future in futures}
    print(f"events are in partitions {sorted(partitions)}")

    client.delete_topic(TOPIC)
