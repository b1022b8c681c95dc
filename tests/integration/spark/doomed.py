"""A program with a session of its own that dies as a whole while an archive, a replay and a stream are in their middle.

The archive has written the files of its second micro-batch and not committed them; the replay has sent its second lot
and not noted it; the brokers have the stream's micro-batch and Spark has not. Then the JVM and this process are killed.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from flotilla.lake import archive as archive_module
from flotilla.lake.archive import ArchiveOptions
from flotilla.lake.store import Store
from flotilla.spark.pipelines import replay as replay_module
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.replay import ReplayOptions, replay
from flotilla.spark.pipelines.session import prepare
from tests.integration.spark.faulty import FaultySource
from tests.integration.spark.tables import drain

#: Micro-batches of the archive, and blocks and lots of the replay: two of each for every partition.
BATCH_ROWS = 300
BLOCK_ROWS = 10
LOT_BLOCKS = 15
_WAIT_S_MAX = 240


def archive_options(servers: str, topic: str, lake: str) -> ArchiveOptions:
    return ArchiveOptions(servers, [topic], lake, batch_rows=BATCH_ROWS)


def replay_options(servers: str, topic: str, into: str, folder: Path) -> ReplayOptions:
    return ReplayOptions(servers, topic, into_topic=into, checkpoint=str(folder / "replay"))


def stuck_at_the_second(work: Callable[..., Any], has_come: threading.Event) -> Callable[..., Any]:
    """The same, but the second call reports itself and blocks for ever."""
    calls = []

    def run(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            has_come.set()
            threading.Event().wait()
        return work(*arguments, **named)

    return run


def main(servers: str, topic: str, into: str, copy: str, lake: str, folder: Path, java_flags: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", java_flags).config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.python.authenticate.socketTimeout", "120s").getOrCreate()
    prepare(spark)
    spark.dataSource.register(FaultySource)

    archived, sent = threading.Event(), threading.Event()
    archive_module.verify_files = stuck_at_the_second(archive_module.verify_files, archived)
    replay_module.BLOCK_ROWS, replay_module.LOT_BLOCKS = BLOCK_ROWS, LOT_BLOCKS  # type: ignore[misc]
    put = Store.put
    noted = stuck_at_the_second(put, sent)

    def put_or_stay(self: Store, path: str, data: bytes, **how: bool) -> None:
        (noted if path == "progress.json" else put)(self, path, data, **how)

    Store.put = put_or_stay  # type: ignore[method-assign]
    for work in (
        lambda: archive(spark, archive_options(servers, topic, lake), str(folder / "archive")),
        lambda: replay(spark, replay_options(servers, topic, into, folder)),
    ):
        threading.Thread(target=work, daemon=True).start()
    assert archived.wait(_WAIT_S_MAX), "the archive has not come to its second batch"
    assert sent.wait(_WAIT_S_MAX), "the replay has not come to its second lot"

    victims = f"{spark._jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}"
    (folder / "faults" / "after-commit").write_text(victims)
    reader = spark.readStream.format("flotilla").option("servers", servers).option("subscribe", topic)
    rows = reader.option("startingOffsets", "earliest").load().select("value")
    drain(rows, servers, folder / "stream", into="faulty", topic=copy, folder=folder / "faults")


if __name__ == "__main__":
    said = json.loads(sys.argv[1])
    main(**{**said, "folder": Path(said["folder"])})
