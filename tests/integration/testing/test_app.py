"""Tasks in Python on a broker whose clock is turned by hand."""

import asyncio
import json
import pickle
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pytest

from flotilla import (
    AlreadyExistsError,
    App,
    DeadlineError,
    FlotillaError,
    ForgottenError,
    InvalidArgumentError,
    MessageFailedError,
    Receipt,
    Reject,
    Retry,
    WrongTypeError,
)
from flotilla.testing import HOUR_MS, LocalBroker
from flotilla.types.dead_letters import summary


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def app(broker):
    with App(broker.address) as app:
        yield app


def test_a_worker_calls_functions_of_several_topics(app):
    calls = []

    @app.task(topic="mail", max_deliveries=5)
    def send_mail(to: str, at: timedelta = timedelta()):
        calls.append((to, at, threading.current_thread().name.startswith("flotilla-task")))

    @app.task(topic="pages")
    async def fetch(url: str):
        calls.append((url, asyncio.get_running_loop().is_running()))

    @app.task(topic="mail")
    def send_fax(number: int):
        calls.append(number)

    send_mail.send("ann", at=timedelta(hours=1))
    send_mail.send(to="bob")
    fetch.send("http://x")
    send_fax.send(7)
    assert send_mail("here", timedelta()) is None
    calls.clear()
    app.run(burst=True)
    assert sorted(calls, key=repr) == sorted(
        [("ann", timedelta(hours=1), True), ("bob", timedelta(), True), ("http://x", True), 7], key=repr
    )


def test_a_message_is_plain_json(app):
    @app.task(topic="mail", max_deliveries=5)
    def send_mail(to): ...

    receipt = send_mail.send_with_options(("ann",), priority=3, headers={"a": "b"}, key=b"k")
    (message,) = app.client.peek("mail", receipt.partition)
    assert json.loads(message.payload) == {"to": "ann"}
    assert (message.header("flotilla-task-type"), message.header("a")) == (b"send_mail", b"b")
    assert (message.priority, message.key, message.content_type) == (3, b"k", 2)


def test_a_single_task_of_a_topic_needs_no_header(app):
    calls = []

    @app.task(topic="mail")
    def send_mail(to: str):
        calls.append(to)

    app.client.produce("mail", b'{"to": "ann"}')
    app.run(burst=True)
    assert calls == ["ann"]


def test_failures_are_retried_and_hooks_hear_of_everything(app, broker):
    heard = []

    @app.task(topic="mail", max_deliveries=2)
    def send_mail(to: str):
        if to == "nobody":
            raise Reject("no such address")
        if to == "bob":
            raise OSError("busy")
        return f"sent to {to}"

    for event in ("start", "done", "error", "reject"):

        def hook(task, message, *more, event=event):
            heard.append((event, task.name, json.loads(message.payload)["to"], message.attempt, *map(str, more)))

        getattr(app, f"on_{event}")(hook)

    for to in ("ann", "nobody", "bob"):
        send_mail.send(to)
    app.run(burst=True)
    broker.advance(hours=1)
    app.run(burst=True)
    assert [each for each in heard if each[2] == "ann"] == [
        ("start", "send_mail", "ann", 1),
        ("done", "send_mail", "ann", 1, "sent to ann"),
    ]
    assert ("reject", "send_mail", "nobody", 1, "no such address") in heard
    assert [each[3] for each in heard if each[0] == "error"] == [1, 2]
    letters = app.client.dead_letters("mail", "workers").list()
    assert sorted(summary(letter.reason) for letter in letters) == ["OSError: busy", "no such address"]
    assert any('in send_mail\n    raise OSError("busy")' in letter.reason for letter in letters)


def test_a_hook_that_fails_fails_nothing(app):
    @app.task
    def add(): ...

    @app.on_start
    def broken(task, message):
        raise RuntimeError("hook")

    add.send()
    worker = app.worker(burst=True)
    worker.run()
    assert (worker.handled_count, worker.failed_count) == (1, 0)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_attempt_has_a_time_limit(app, broker, is_async):
    errors = []
    app.on_error(lambda task, message, error: errors.append(str(error)))
    over = threading.Event()
    if is_async:

        @app.task(time_limit_ms=50, max_deliveries=1)
        async def slow():
            await asyncio.sleep(3600)
    else:

        @app.task(time_limit_ms=50, max_deliveries=1)
        def slow():
            over.wait(20)

    slow.send()
    app.run(burst=True)
    over.set()
    assert errors == ["task slow took longer than 50 ms"]
    assert len(app.client.dead_letters("tasks", "workers").list()) == 1


def test_a_task_knows_its_message_and_sends_others(app):
    seen = []

    @app.task
    def parent(depth: int):
        seen.append((depth, app.current_message.attempt))
        if depth:
            parent.send(depth - 1)

    @app.task(topic="other")
    async def coroutine():
        await parent.asend(0)
        seen.append(app.current_message.topic)

    parent.send(2)
    coroutine.send()
    app.run(burst=True)
    app.run(burst=True)
    assert sorted(map(str, seen)) == sorted(["(2, 1)", "(1, 1)", "(0, 1)", "(0, 1)", "other"])
    with pytest.raises(LookupError):
        _ = app.current_message


def test_bad_arguments_are_refused_at_both_ends(app):
    @app.task(topic="mail")
    def send_mail(to: str): ...

    with pytest.raises(TypeError, match="missing"):
        send_mail.send()
    with pytest.raises(WrongTypeError, match="to: 5 is no str"):
        send_mail.send(5)
    app.client.produce("mail", b'{"to": 5}')
    app.client.produce("mail", b"junk")
    app.run(burst=True)
    reasons = [letter.reason for letter in app.client.dead_letters("mail", "workers").list()]
    assert all(reason.startswith("bad arguments of task send_mail") for reason in reasons)
    assert len(reasons) == 2


def test_a_task_of_another_version_is_left_to_it(app, broker):
    @app.task
    def known(): ...

    app.client.produce("tasks", b"{}", headers={"flotilla-task-type": "unknown"})
    app.run(burst=True)
    assert app.client.describe_group("tasks", "workers").delayed == 1

    with App(broker.address) as newer:
        calls = []
        newer.task(lambda: calls.append(1), name="unknown")
        broker.advance(hours=1)
        newer.run(burst=True)
        assert calls == [1]


def test_a_recurring_task(app, broker):
    calls = []

    @app.cron(every_ms=HOUR_MS, missed="all")
    def clean(days: int = 3):
        calls.append((days, app.current_message.header("flotilla-schedule")))

    @app.cron("@hourly", time_zone="Europe/Berlin", name="deep", kwargs={"days": 9})
    @app.task(topic="cleaning")
    def clean_deeply(days: int): ...

    app.run(burst=True)
    made = app.client.schedules.list()
    assert [each.name for each in made] == ["clean", "deep"]
    broker.advance(hours=2)
    app.run(burst=True)
    assert calls == [(3, b"clean")] * 2
    # A second start changes nothing.
    assert [each.schedule_id for each in app.client.schedules.list()] == [each.schedule_id for each in made]


def test_a_delay_ends_when_the_clock_is_turned(app, broker):
    calls = []
    remind = app.task(lambda who: calls.append(who), name="remind")
    remind.send_with_options(("ann",), delay_ms=7 * 24 * HOUR_MS)
    app.run(burst=True)
    assert calls == []
    broker.advance(days=7)
    app.run(burst=True)
    assert calls == ["ann"]


def test_a_worker_runs_beside_a_test_and_drains(app):
    begun, go = threading.Event(), threading.Event()

    @app.task
    def wait():
        begun.set()
        go.wait(20)

    with app.worker(concurrency=2) as worker:
        wait.send()
        assert begun.wait(20)
        assert worker.running_count == 1
        go.set()
    assert worker.handled_count == 1
    assert app.client.describe_group("tasks", "workers").acked_total == 1


def test_retry_chooses_its_delay(app, broker):
    attempts = []

    @app.task
    def flaky():
        attempts.append(app.current_message.attempt)
        if len(attempts) < 2:
            raise Retry(5_000)

    flaky.send()
    app.run(burst=True)
    broker.advance(seconds=6)
    app.run(burst=True)
    assert attempts == [1, 2]


def test_declarations_are_checked(app):
    @app.task
    def once(): ...

    with pytest.raises(AlreadyExistsError, match="'once'"):
        app.task(once.function)
    for arguments in ({"topic": "a/b"}, {"group": "a/b"}, {"time_limit_ms": -1}, {"max_delivery": 5}, {"name": ""}):
        with pytest.raises(InvalidArgumentError):
            app.task(lambda: None, **{"name": "x", **arguments})
    with pytest.raises(InvalidArgumentError, match="missing a required argument"):
        app.cron("@daily")(app.task(lambda a: None, name="y"))
    with pytest.raises(InvalidArgumentError, match="either"):
        app.cron()(once)
    with pytest.raises(InvalidArgumentError, match="no task of topic ghost"):
        app.worker(topics=["ghost"])
    app.cron("not cron")(once)
    with pytest.raises(InvalidArgumentError, match="five fields"):
        app.run(burst=True)


def test_an_app_goes_elsewhere_for_a_while(app, broker):
    calls = []
    note = app.task(lambda: calls.append(1), name="note")
    with LocalBroker() as other, app.use(other.address):
        note.send()
        app.run(burst=True)
    assert calls == [1]
    with pytest.raises(FlotillaError):
        app.client.describe_topic("tasks")


def test_the_servers_come_from_the_environment(broker, monkeypatch):
    monkeypatch.setenv("FLOTILLA_SERVERS", broker.address)
    started = time.monotonic()
    with App() as app:
        app.task(lambda: None, name="note").send()
    assert time.monotonic() - started < 30


def test_a_task_returns_its_result(app):
    @dataclass
    class Total:
        amount: Decimal
        currency: str

    @app.task
    def add(a: int, b: int) -> Total:
        return Total(Decimal(a + b), "EUR")

    @app.task(topic="pages", group="readers")
    async def fetch(url: str) -> list[str]:
        return [url]

    @app.task
    def nothing():
        pass

    total, page, none = add.send(2, 3), fetch.send("x"), nothing.send()
    app.run(burst=True)
    assert total.result() == Total(Decimal(5), "EUR")
    assert asyncio.run(page.aresult()) == ["x"]
    assert none.result() is None
    receipt = pickle.loads(pickle.dumps(total))
    assert type(receipt) is Receipt
    assert receipt == total
    assert add.result(receipt) == total.result()


def test_a_task_that_dies_raises_where_its_result_is_awaited(app):
    @app.task(max_deliveries=1)
    def fail():
        raise RuntimeError("no luck")

    sent = fail.send()
    with pytest.raises(DeadlineError):
        sent.result(timeout_ms=1)
    app.run(burst=True)
    with pytest.raises(MessageFailedError, match="RuntimeError: no luck"):
        sent.result()


def test_a_result_that_cannot_be_kept_fails_no_task(app):
    @app.task
    def make(kind: str) -> str:
        return object() if kind == "object" else "x" * 100_000

    sent = [make.send("object"), make.send("large")]
    worker = app.worker(burst=True)
    worker.run()
    assert (worker.handled_count, worker.failed_count, worker.rejected_count) == (2, 0, 0)
    for each in sent:
        with pytest.raises(ForgottenError):
            each.result()


def test_a_chain_calls_each_task_with_what_the_one_before_returned(app):
    @app.task(topic="pages")
    async def fetch(url: str) -> str:
        return f"page of {url}"

    @app.task(topic="words", priority=4)
    def count(page: str) -> int:
        return len(page.split())

    @app.task(topic="words")
    def done():
        seen.append((app.current_message.key, app.current_message.headers))

    seen = []
    sent = fetch.then(count).then(done).send_with_options(("x",), key=b"k", priority=1)
    assert [name for name, _ in app.client.peek("pages", sent.partition)[0].headers] == [
        "flotilla-task-type",
        "flotilla-task-then",
    ]
    app.run(burst=True)
    assert seen == [(b"k", (("flotilla-task-type", b"done"),))]
    assert sent.result(timeout_ms=5_000) == "page of x"
    counted, ended = app.client.peek("words", 0)
    assert (json.loads(counted.payload), counted.priority, ended.payload) == ({"page": "page of x"}, 4, b"{}")
    for topic, acked in (("pages", 1), ("words", 2)):
        group = app.client.describe_group(topic, "workers")
        assert (group.acked_total, group.failed_total, group.lag) == (acked, 0, 0)


def test_a_step_that_fails_sends_nothing_and_one_that_does_not_fit_is_rejected(app, broker):
    hooks = []
    app.on_error(lambda task, message, error: hooks.append(("error", task.name)))
    app.on_reject(lambda task, message, error: hooks.append(("reject", str(error))))

    @app.task(topic="first")
    def first(text: str) -> str:
        if app.current_message.attempt == 1:
            raise OSError("no network")
        return text

    @app.task(topic="second")
    def second(number: int): ...

    first.then(second).send("seven")
    app.run(burst=True)
    broker.advance(minutes=1)
    app.run(burst=True)
    assert hooks[0] == ("error", "first")
    assert len(hooks) == 2
    assert hooks[1][1].startswith("task second cannot follow first: number")
    assert app.client.peek("second", 0) == []
    (letter,) = app.client.dead_letters("first", "workers").list()
    assert "cannot follow" in letter.reason


def test_chains_are_checked(app):
    @app.task(topic="first")
    def first() -> int:
        return called.append(1) or 1

    @app.task
    def add(a: int, b: int): ...

    called = []
    with pytest.raises(InvalidArgumentError, match="more than one argument"):
        first.then(add)
    # One that follows is of another version: nothing is done before it is there.
    app.client.produce("first", b"{}", headers={"flotilla-task-then": '["later"]'})
    app.client.produce("first", b"{}", headers={"flotilla-task-then": "later"})
    app.run(burst=True)
    assert called == []
    group = app.client.describe_group("first", "workers")
    assert (group.lag, group.dead_total) == (1, 1)
    assert group.failed_total
