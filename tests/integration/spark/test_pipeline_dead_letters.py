"""Dead letters: grouped by reason, and redriven: exactly the chosen ones, each once."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.client.admin.fingerprint import RULES, fingerprint_of, shape_of
from flotilla.lake.store import Store
from flotilla.spark.pipelines import redrive as redrive_module
from flotilla.spark.pipelines import sending
from flotilla.spark.pipelines.condition import chosen_rows
from flotilla.spark.pipelines.dead_letters import letters_table, triage, write_report
from flotilla.spark.pipelines.fingerprint import shape_column
from flotilla.spark.pipelines.redrive import RedriveOptions, redrive
from flotilla.spark.pipelines.session import prepare
from flotilla.types.errors import InvalidArgumentError
from tests.integration.spark.faulty import IN_REPLAY, send_block
from tests.integration.spark.pipeline_ledger import PANDAS
from tests.integration.spark.test_pipeline_rollup import read_page

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]

#: A message's own limit: long enough for every test.
TTL_MS = 86_400_000
GROUP = "workers"
REASONS = {
    0: "no stock of article {number}",
    1: "timeout after {number}.5 s to 10.0.0.{number}:80",
    2: "<b>bad</b> address '{number} street'",
}


def own_headers(number: int) -> dict[str, str]:
    """One begins like those of letters; some messages have as many as a broker takes."""
    filling = {f"h{each}": "" for each in range(62)} if number % 10 == 1 else {}
    return {"own": str(number), "flotilla-dead-reason": "mine", **filling}


def bury(client: Client, topic: str, count: int) -> None:
    """Real dead letters: rejected by a worker, each for its own reason."""
    for number in range(count):
        limits = {"ttl_ms": TTL_MS + number, "max_deliveries": 4}
        key, headers = b"k%d" % (number % 5), own_headers(number)
        client.produce(topic, b"%d" % number, key=key, headers=headers, priority=3, **limits)
    left = count
    with client.queue(topic, group=GROUP) as consumer:
        while left:
            for message in consumer.poll(max_messages=64, wait_ms=10_000):
                number = int(message.payload)
                message.reject(reason=REASONS[number % 3].format(number=number))
                left -= 1
    while len(client.dead_letters(topic, GROUP).list(limit=count)) < count:
        pass


def die_at_every_step(run: Callable[[], object], faults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that was not named does not count; one that was is finished by later runs, whatever was done of it."""

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("the driver dies here")

    for step in ("_named", "send_rows", "_cancelling"):
        with monkeypatch.context() as broken:
            broken.setattr(redrive_module, step, die)
            with pytest.raises(RuntimeError):
                run()
    put = Store.put

    def die_at_the_end(self: Store, path: str, data: bytes, **how: bool) -> None:
        if path.endswith("done.json"):
            die()
        put(self, path, data, **how)

    # Tasks die before and after a block; then everything is done, and the driver dies before it is noted.
    faults.mkdir()
    for moment in IN_REPLAY:
        (faults / moment).touch()
    with monkeypatch.context() as broken:
        broken.setattr(Store, "put", die_at_the_end)
        broken.setattr(sending, "_send_block", partial(send_block, str(faults)))
        with pytest.raises(RuntimeError):
            run()
    assert list(faults.iterdir()) == [], "all of them died"


def test_triage_and_a_redrive_that_is_repeated_and_broken(
    spark: Any,
    client: Client,
    servers: str,
    topic: Callable[..., str],
    tmp_path: Path,
    object_store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(spark)
    name = topic(partitions=2)
    bury(client, name, 30)
    letters = letters_table(spark, servers=servers, topic=name, group=GROUP)

    found = triage(letters)
    assert found.letters == 30
    expected = Counter({fingerprint_of(REASONS[kind].format(number=7)): 10 for kind in REASONS})
    assert {each.fingerprint: each.count for each in found.groups} == expected
    assert {each.shape for each in found.groups} == {shape_of(REASONS[kind].format(number=7)) for kind in REASONS}
    assert {(each.topic, each.group, each.attempts_max) for each in found.groups} == {(name, GROUP, 1)}
    assert sum(sum(values) for _, values in found.series) == 30
    page = read_page(write_report(found, tmp_path / "page.html"))
    assert (page.links, page.tags["svg"], page.tags["b"] == 4) == ([], 2, True), "the reason is text, not markup"

    with pytest.raises(InvalidArgumentError, match="the columns are"):
        chosen_rows(letters, "colour = 'red'")
    chosen = chosen_rows(letters, f"fingerprint = '{fingerprint_of(REASONS[1].format(number=1))}'")
    options = RedriveOptions(servers, f"{object_store}/redrive", rows_per_second=8.0)
    wanted = {b"%d" % number for number in range(30) if number % 3 == 1}

    die_at_every_step(lambda: redrive(spark, chosen, options), tmp_path / "faults", monkeypatch)
    done = redrive(spark, chosen, options)
    assert (done.sent, done.finished) == (0, 10)
    assert redrive(spark, chosen, options) == replace(done, finished=0)
    # Another checkpoint knows nothing of it; the dead-letter topic does.
    assert redrive(spark, chosen, RedriveOptions(servers, str(tmp_path / "another"))).sent == 0

    back = []
    with client.queue(name, group=GROUP) as consumer:
        while len(back) < 10:
            back += consumer.poll(max_messages=64, wait_ms=10_000)
        assert consumer.poll(max_messages=1, wait_ms=500) == []
        assert Counter(message.payload for message in back) == Counter(wanted)
        for message in back:
            own = own_headers(int(message.payload))
            counted = {} if len(own) == 64 else {"flotilla-redriven": "1"}
            assert message.headers == tuple((key, text.encode()) for key, text in (own | counted).items())
            assert message.priority == 3
        # One dies again, and its letter has the limits that it came back with.
        again = back.pop(next(at for at, each in enumerate(back) if each.header("flotilla-redriven")))
        again.reject(reason="again")
        consumer.ack(back)
    while len(left := client.dead_letters(name, GROUP).list(limit=100)) < 21:
        pass
    assert {letter.payload for letter in left} - {again.payload} == {b"%d" % n for n in range(30)} - wanted
    (letter,) = [each for each in left if each.payload == again.payload]
    assert (letter.ttl_ms, letter.max_deliveries, letter.redriven) == (TTL_MS + int(again.payload), 4, 1)


def test_shapes_are_the_same_in_spark_and_in_python(spark: Any) -> None:
    reasons = [reason.format(number=number) for reason in REASONS.values() for number in (0, 12, 123_456)]
    reasons += ["can't", "id 3f2b8c1e-9d4a-4c3b-8a7e-0123456789ab", "0xFF at 2030-01-31T12:00:00Z", "a  b\n", "-1 x-2"]
    assert RULES
    table = spark.createDataFrame([(reason,) for reason in reasons], "reason string")
    rows = table.select("reason", shape_column(table["reason"]).alias("shape")).collect()
    assert {row.reason: row["shape"] for row in rows} == {reason: shape_of(reason) for reason in reasons}
