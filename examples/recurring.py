"""A recurring job without a scheduler: each run schedules its successor, in the transaction that acknowledges it.

Either both happen or neither, so the chain never breaks and never doubles, whatever is killed. The idempotency key of
the first message makes it safe to start the script on many machines.
Run a broker (`flotilla serve`), then `python examples/recurring.py`.
"""

import os
import time

from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-recurring"
EVERY_MS = 300


def clean_up(run: int) -> None:
    print(f"run {run}: removing expired sessions")


with Client(SERVERS) as client:
    client.create_topic(TOPIC, if_not_exists=True)
    client.produce(TOPIC, b"1", idempotency_key="clean-up")
    client.produce(TOPIC, b"1", idempotency_key="clean-up")  # a second machine: stored once all the same

    started = time.monotonic()
    with client.queue(TOPIC, group="scheduler") as queue:
        for message in queue:
            run = int(message.payload)
            with message, client.transaction() as txn:
                clean_up(run)
                txn.produce(TOPIC, b"%d" % (run + 1), delay_ms=EVERY_MS)
                txn.ack(message)
            if run == 3:
                break
    print("kept the interval:", time.monotonic() - started >= 2 * EVERY_MS / 1000)

    # A real job runs for ever. To stop one, cancel its next message.
    client.delete_topic(TOPIC)
