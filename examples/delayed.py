"""Deliver messages later, cancel them in time, and let them expire.

Delayed messages are stored and replicated like all others: no worker holds them, and no restart forgets them.
Run a broker (`flotilla serve`), then `python examples/delayed.py`.
"""

import os
import time

from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-delayed"

with Client(SERVERS) as client:
    client.create_topic(TOPIC, if_not_exists=True)

    # A reminder for each order; the key is its name for the cancellation below.
    started = time.monotonic()
    client.produce(TOPIC, b"reminder for order 1", delay_ms=500, idempotency_key="reminder-1")
    client.produce(TOPIC, b"reminder for order 2", delay_ms=500, idempotency_key="reminder-2")
    # A message that is of no use after 100 ms, and is never delivered after that.
    client.produce(TOPIC, b"outdated", delay_ms=400, ttl_ms=100)

    # Order 1 is paid: its reminder is cancelled for all groups, for good.
    print("cancelled:", len(client.cancel(TOPIC, idempotency_key="reminder-1")))

    with client.queue(TOPIC, group="reminders") as queue:
        print("at once:", len(queue.poll(wait_ms=0)))
        (message,) = queue.poll(max_messages=10, wait_ms=5_000)
        message.ack()
        print(f"later: {message.text}, not too early: {time.monotonic() - started >= 0.5}")

    client.delete_topic(TOPIC)
