"""A worker as a program: SIGTERM drains it. Its handler says what it does, and ends when a line comes.

python -m tests.conformance.sdk.drained 127.0.0.1:7600 topic group
"""

import signal
import sys

from flotilla import Worker
from flotilla.client.queue.sync import QueueMessage


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def handle(message: QueueMessage) -> None:
    say(f"begun {message.text}")
    sys.stdin.readline()
    say(f"ended {message.text}")


def stop(*_: object) -> None:
    say("stopping")
    worker.stop()


if __name__ == "__main__":
    worker = Worker(sys.argv[1], sys.argv[2], sys.argv[3], handle, concurrency=1)
    signal.signal(signal.SIGTERM, stop)
    worker.run()
