"""Find messages that failed for the last time, and send them back when the cause is fixed.

Run a broker (`flotilla serve`), then `python examples/dead_letters.py`.
"""

import os
import time

from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-dead-letters"

with Client(SERVERS) as client:
    client.create_topic(TOPIC, max_deliveries=2, nack_backoff_ms=0, if_not_exists=True)
    client.produce_many(TOPIC, [b"ann", b"bob"])

    # Two failed attempts of each message: then the group gives it up.
    with client.queue(TOPIC, group="senders") as queue:
        for _ in range(4):
            (message,) = queue.poll(max_messages=1)
            message.nack(reason="timeout" if message.payload == b"ann" else "no such address")

    # Dead letters are in a topic of their own, with reason, attempts and origin in their headers.
    letters = client.dead_letters(TOPIC, "senders")
    while len(found := letters.list()) < 2:
        time.sleep(0.05)
    for letter in sorted(found, key=lambda letter: letter.payload):
        print(f"{letter.payload.decode()} died after {letter.attempts} attempts: {letter.reason}")

    # The mail server works again: send the timeouts back to their topic, and drop the rest.
    print("redriven:", letters.redrive(reason="timeout").done)
    print("purged:", letters.purge(reason="no such address").done)

    with client.queue(TOPIC, group="senders") as queue:
        (message,) = queue.poll(max_messages=1)
        message.ack()
        print(f"{message.text} succeeded at attempt {message.attempt}")

    client.delete_topic(letters.topic)
    client.delete_topic(TOPIC)
