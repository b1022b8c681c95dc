"""Run a handler for every message of a queue group, several at a time.

This is what `flotilla worker module:function` does; here it stops after ten messages.
Run a broker (`flotilla serve`), then `python examples/worker.py`.
"""

import os
import time

from flotilla import Client, QueueMessage, Reject, Worker

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-worker"


def handle(message: QueueMessage) -> None:
    """Returning acknowledges the message. Raising fails it; `Reject` makes it a dead letter at once."""
    if message.payload == b"nonsense":
        raise Reject("not an order")
    orders.append(message.payload)
    if len(orders) == 10:
        worker.stop()  # drains: running handlers finish, the rest is released


orders: list[bytes] = []
worker = Worker(SERVERS, TOPIC, "billing", handle, concurrency=4)

with Client(SERVERS) as client:
    client.create_topic(TOPIC, if_not_exists=True)
    client.produce_many(TOPIC, [b"nonsense", *(b"order %d" % number for number in range(10))])

    worker.run()
    print(f"handled {len(orders)} orders")

    # The outcome of the rejected message is in the log; its dead letter follows a moment later.
    letters = client.dead_letters(TOPIC, "billing")
    while not (found := letters.list()):
        time.sleep(0.05)
    print(f"rejected: {found[0].payload.decode()} ({found[0].reason})")

    client.delete_topic(letters.topic)
    client.delete_topic(TOPIC)
