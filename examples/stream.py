"""Share partitions, as a Kafka consumer group does: each partition has one owner, which reads it in order.

Run a broker (`flotilla serve`), then `python examples/stream.py`.
"""

import os
from collections import defaultdict

from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-stream"

with Client(SERVERS) as client:
    client.create_topic(TOPIC, partitions=3, if_not_exists=True)
    # Records of one key are in one partition, so they keep their order.
    for number in range(30):
        client.produce(TOPIC, b"%d" % number, key=b"customer-%d" % (number % 5))

    seen: dict[bytes | None, list[int]] = defaultdict(list)
    # With auto_commit_ms, messages are committed when the next one is asked for; here we commit by hand.
    with client.stream(TOPIC, group="billing") as stream:
        for message in stream:
            seen[message.key].append(int(message.payload))
            if sum(map(len, seen.values())) == 20:
                break
        print("partitions:", stream.assignment)
        stream.commit()

    # Another member of the group continues after the last commit, and reads the remaining ten.
    with client.stream(TOPIC, group="billing", auto_commit_ms=1_000) as stream:
        for message in stream:
            seen[message.key].append(int(message.payload))
            if sum(map(len, seen.values())) == 30:
                break

    print("in order:", all(numbers == sorted(numbers) for numbers in seen.values()))
    client.delete_topic(TOPIC)
