"""Waits for what the broker does a moment later by itself, without turning its clock."""

import time

WAIT_S_MAX = 60


def eventually(look):
    """What is seen as soon as it is something."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not (found := look()):
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.01)
    return found


def payloads(messages):
    return [message.payload for message in messages]
