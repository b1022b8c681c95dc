"""Tasks: functions that messages call, on several topics, with retries, hooks and a schedule.

In production `flotilla worker app:app` runs them; here a worker runs until nothing is left to do.
Run a broker (`flotilla serve`), then `python examples/app.py`.
"""

import os
from datetime import date

from flotilla import App, Retry

app = App(os.environ.get("FLOTILLA_SERVERS", "localhost:7600"))
sent: list[str] = []


@app.task(topic="example-mail", max_deliveries=5)
def send_mail(to: str, day: date) -> None:
    """A plain function runs in a thread. Raising fails the attempt, `Retry` says when the next one comes."""
    if to == "bob" and app.current_message.attempt == 1:
        raise Retry(0, reason="the mail server is busy")
    sent.append(f"{to} on {day:%d %B}, attempt {app.current_message.attempt}")


@app.task(topic="example-pages")
async def fetch(url: str) -> str:
    """A coroutine runs on the worker's loop."""
    return url.upper()


@app.cron("0 3 * * *", time_zone="Europe/Berlin", name="example-clean-up")
@app.task(topic="example-pages")
def clean_up() -> None:
    """The cluster calls it every night, once, however many workers there are."""


@app.on_done
def done(task, message, result):  # type: ignore[no-untyped-def]
    if result is not None:
        print(f"{task.name}: {result}")


if __name__ == "__main__":
    with app:
        send_mail.send("ann", date(2026, 5, 1))
        send_mail.send(to="bob", day=date(2026, 5, 2))
        fetch.send("http://example.org")
        app.run(burst=True)
        print(*sorted(sent), sep="\n")
        print("recurring:", [schedule.name for schedule in app.client.schedules.list()])

        app.client.schedules.delete("example-clean-up")
        app.client.delete_topic("example-mail")
        app.client.delete_topic("example-pages")
