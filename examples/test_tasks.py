"""Test tasks of an App with the fixtures that Flotilla gives to pytest.

Needs no running broker: `pytest examples/test_tasks.py`.
"""

from flotilla import App
from flotilla.testing import DAY_MS, LocalBroker

app = App()
outbox: list[str] = []


@app.task(topic="reminders")
def remind(customer: str) -> None:
    outbox.append(customer)


def test_a_reminder_comes_after_a_week(flotilla_broker: LocalBroker) -> None:
    with app.use(flotilla_broker.address):
        remind.send_with_options(("ann",), delay_ms=7 * DAY_MS)
        app.run(burst=True)
        assert outbox == []
        flotilla_broker.advance(days=7)
        app.run(burst=True)
    assert outbox == ["ann"]
