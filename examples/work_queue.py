"""Share messages among workers: a queue group leases each message to one consumer until it is settled.

Run a broker (`flotilla serve`), then `python examples/work_queue.py`.
"""

import os

from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-work-queue"

with Client(SERVERS) as client:
    # A message that fails is tried again after 100 ms, then 200 ms, and is a dead letter after 5 attempts.
    client.create_topic(TOPIC, nack_backoff_ms=100, max_deliveries=5, if_not_exists=True)
    client.produce_many(TOPIC, [b"ann", b"bob", b"eve"])
    client.produce(TOPIC, b"urgent", priority=7)

    handled = []
    with client.queue(TOPIC, group="senders") as queue:
        for message in queue:
            try:
                # The end of the block acknowledges the message; an exception fails it. The client renews the lease
                # while the block runs, so it may take as long as it needs.
                with message:
                    if message.payload == b"bob" and message.attempt == 1:
                        raise ConnectionError("the mail server is busy")
                    handled.append(message.text)
            except ConnectionError as error:
                print(f"attempt {message.attempt} failed: {error}")
            if len(handled) == 4:
                break

    print("handled:", ", ".join(handled))
    client.delete_topic(TOPIC)
