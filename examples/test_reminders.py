"""Test an application with a real broker in the test's own process, and a clock that is turned by hand.

Needs no running broker: `pytest examples/test_reminders.py`.
"""

from flotilla import Client
from flotilla.testing import DAY_MS, LocalBroker


def remind(client: Client, customer: str) -> None:
    """The application: a reminder after a week."""
    client.produce("reminders", customer.encode(), delay_ms=7 * DAY_MS, idempotency_key=customer)


def test_a_reminder_comes_once_and_after_a_week() -> None:
    with LocalBroker() as broker, broker.client() as client:
        remind(client, "ann")
        remind(client, "ann")
        with client.queue("reminders", group="senders") as queue:
            assert queue.poll(wait_ms=0) == []
            broker.advance(days=7)
            assert [message.payload for message in queue.poll()] == [b"ann"]
