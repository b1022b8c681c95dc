"""Sends the dead letters of the group again, and does what they ask for."""

import os
import time

from flotilla import Client

topic = os.environ.get("TOPIC", "mails")
with Client(os.environ.get("FLOTILLA_SERVERS", "127.0.0.1:7600")) as client:
    letters = client.dead_letters(topic, "senders")
    while not (found := letters.list()):
        time.sleep(0.01)  # The broker moves a rejected message a moment after its answer.
    print(f"dead: {found[0].payload.decode()}, {found[0].reason}")
    print(f"redriven: {letters.redrive().done}")
    with client.queue(topic, group="senders") as queue:
        for message in queue.poll():
            print(f"sent to {message.text} after all")
            message.ack()
