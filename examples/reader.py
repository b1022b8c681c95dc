"""Read a topic without a group, from any offset or time; nothing is committed or changed.

Run a broker (`flotilla serve`), then `python examples/reader.py`.
"""

import os
import time

from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-reader"

with Client(SERVERS) as client:
    client.create_topic(TOPIC, if_not_exists=True)
    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    for number in range(5):
        client.produce(TOPIC, b"old %d" % number, timestamp_ms=hour_ago_ms + number)
    for number in range(5):
        client.produce(TOPIC, b"new %d" % number)

    with client.reader(TOPIC, offset="earliest") as reader:
        messages = reader.poll(max_messages=100)
        print("from the beginning:", len(messages), "messages")
        reader.seek(8)
        print("from offset 8:", [message.text for message in reader.poll()])

    # The first record of this time or later.
    with client.reader(TOPIC, timestamp_ms=hour_ago_ms + 3_000_000) as reader:
        print("of the last ten minutes:", [message.text for message in reader.poll()])

    # A reader with a group can store its position; the next one starts there.
    with client.reader(TOPIC, group="export") as reader:
        reader.poll(max_messages=6)
        reader.commit()
    with client.reader(TOPIC, group="export") as reader:
        print("after the commit:", [message.text for message in reader.poll()])

    client.delete_topic(TOPIC)
