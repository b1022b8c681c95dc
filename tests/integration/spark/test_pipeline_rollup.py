"""Windows over topics: counted once, written when they are over, the same after restarts of the query."""

import json
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.spark.pipelines.rollup import RollupOptions, all_windows, rollup, write_report
from flotilla.spark.pipelines.session import prepare
from flotilla.spark.pipelines.streaming_run import RunOptions
from tests.integration.spark.pipeline_ledger import BEGAN_MS, KEYS, PANDAS, Ledger

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]

MINUTE_MS = 60_000


class _Outside(HTMLParser):
    """What a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def read_page(path: Path) -> _Outside:
    page = _Outside()
    page.feed(path.read_text("utf-8"))
    return page


def test_every_record_is_in_one_window_over_many_runs(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    prepare(spark)
    name, into = topic(), topic(partitions=1)
    options = RollupOptions(
        servers, [name], str(tmp_path / "out"), RunOptions(str(tmp_path / "checkpoint")), into_topic=into, top_keys=2
    )
    ledger = Ledger(name)
    # A second apart: 600 records are the rest of a minute, nine whole ones, and a part of one that is not over.
    ledger.produce(client, 600)
    first = rollup(spark, options)
    ledger.produce(client, 600)
    second = rollup(spark, options)
    assert first.windows < second.windows
    # An hour later: everything before is over.
    client.produce(name, b"the end", timestamp_ms=BEGAN_MS + 1_200_000 + 60 * MINUTE_MS)
    third = rollup(spark, options)
    assert (third.rows, third.size_bytes) == (
        1_200,
        sum(len(b"%d" % number) + len(KEYS[number % 4] or b"") for number in range(1_200)),
    )
    assert rollup(spark, options) == third

    expected = Counter((BEGAN_MS + number * 1_000) // MINUTE_MS for number in range(1_200))
    rows = all_windows(spark, options.out).collect()
    assert {int(row.begins.timestamp() * 1000) // MINUTE_MS: row["rows"] for row in rows} == expected
    assert all(len(row.top_keys) == 2 and row.latency_p50_ms > 0 for row in rows)
    whole = next(row for row in rows if row["rows"] == 60)
    assert {each["item"]: each["count"] for each in whole.top_keys}.items() <= {
        "red": 15,
        "green": 15,
        "blue": 15,
    }.items()

    sent = [json.loads(message.payload) for message in client.peek(into, 0, max_messages=1_000)]
    assert sum(window["rows"] for window in sent) == 1_200
    assert len(sent) == third.windows

    page = read_page(write_report(spark, options, tmp_path / "page.html"))
    assert page.links == []
    assert page.tags["svg"] == 4
    assert not page.tags["script"]


def test_latency_may_count_from_a_header(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=1)
    for number in range(100):
        client.produce(
            name, b"x", timestamp_ms=BEGAN_MS + number, headers={"began": str(BEGAN_MS + number - (number + 1) * 10)}
        )
    client.produce(name, b"no header", timestamp_ms=BEGAN_MS + 200)
    client.produce(name, b"the end", timestamp_ms=BEGAN_MS + 60 * MINUTE_MS)
    options = RollupOptions(
        servers, [name], str(tmp_path / "out"), RunOptions(str(tmp_path / "checkpoint")), latency_header="began"
    )
    assert rollup(spark, options).rows == 101
    (row,) = all_windows(spark, options.out).collect()
    assert (row.latency_p50_ms, row.latency_p95_ms, row.latency_p99_ms) == (500, 950, 990)
