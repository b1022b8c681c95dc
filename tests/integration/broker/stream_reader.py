"""A member of a stream group as a process of its own, that keeps a diary: what it was given, what it handled.

    python -m tests.integration.broker.stream_reader ADDRESSES TOPIC GROUP SESSION_MS

One JSON line for each event, written before anything else happens. It works until its standard input ends.
"""

import json
import sys
import threading

from flotilla import Client

_LOCK = threading.Lock()


def note(**event: object) -> None:
    with _LOCK:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def main(addresses: str, topic: str, group: str, session_ms: str) -> None:
    is_over = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=watch, daemon=True).start()
    with (
        Client(addresses) as client,
        client.stream(
            topic,
            group=group,
            session_ms=int(session_ms),
            on_assign=lambda partitions: note(assigned=partitions),
            on_revoke=lambda partitions, lost: note(revoked=partitions, lost=lost),
        ) as consumer,
    ):
        note(member=consumer.member)
        while not is_over.is_set():
            messages = consumer.poll(100, wait_ms=200)
            for message in messages:
                note(read=[message.partition, message.offset])
            if messages:
                consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
