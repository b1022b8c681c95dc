"""Programs in other processes: over Spark Connect, and with a cluster of two workers from the pip package."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from tests.integration.ports import free_ports
from tests.integration.spark.conftest import JAVA_FLAGS
from tests.integration.spark.waiting import wait_until

pyspark = pytest.importorskip("pyspark", reason="the spark extra")

Topic = Callable[..., str]
PROGRAM_S_MAX = 480

#: Reads, streams with a group and writes; found by name, without registration.
PROGRAM = """
    import sys
    from pyspark.sql import SparkSession

    kind, address, servers, name, copy, checkpoint, java_flags = sys.argv[1:]
    builder = SparkSession.builder.appName("elsewhere")
    if kind == "connect":
        spark = builder.remote(address).getOrCreate()
        import flotilla.spark
    else:
        spark = (builder.master(address).config("spark.ui.enabled", "false").config("spark.cores.max", "2")
                 .config("spark.executor.memory", "512m").config("spark.driver.extraJavaOptions", java_flags)
                 .config("spark.executor.extraJavaOptions", java_flags).getOrCreate())
    options = {"servers": servers, "subscribe": name}
    print("count", spark.read.format("flotilla").options(**options).load().count())
    rows = (spark.readStream.format("flotilla").options(**options).option("startingOffsets", "earliest")
            .option("group", "elsewhere").option("minPartitions", 4).load().select("key", "value"))
    writer = (rows.writeStream.format("flotilla").option("servers", servers).option("topic", copy)
              .option("checkpointLocation", checkpoint).trigger(availableNow=True))
    while True:
        try:
            writer.start().awaitTermination()
            break
        except Exception as error:
            # On a busy machine Spark does not wait long enough for its own planner.
            if "failed to connect back" not in str(error):
                raise
    print("copied", spark.read.format("flotilla").option("servers", servers).option("subscribe", copy).load().count())
    try:
        spark.read.format("flotilla").options(**options).option("minPartition", "3").load().columns
    except Exception as error:
        print("refused", "did you mean minPartitions" in str(error))
    if kind == "standalone":
        from flotilla.lake.archive import ArchiveOptions
        from flotilla.spark.pipelines.archive import archive
        from flotilla.spark.pipelines.query import flotilla_table
        from flotilla.spark.pipelines.session import prepare
        prepare(spark)
        lake = checkpoint + "-lake"
        print("archived", archive(spark, ArchiveOptions(servers, [name], lake), checkpoint + "-archive").rows_total)
        print("queried", flotilla_table(spark, name, servers=servers, lake=lake).select("offset").count())
    if kind == "connect":
        # The listener hears of the end of the query a moment later.
        import time
        from flotilla import Client
        with Client(servers) as client:
            end = [client.find_offset(name, number, "latest") for number in (0, 1)]
            deadline = time.monotonic() + 60
            while (at := [client.committed_offset(name, "elsewhere", number) for number in (0, 1)]) != end:
                assert time.monotonic() < deadline, (at, end)
                time.sleep(0.1)
            print("committed", True)
    spark.stop()
"""


def _run(kind: str, address: str, servers: str, name: str, copy: str, checkpoint: Path) -> str:
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    ended = subprocess.run(
        [*program, kind, address, servers, name, copy, str(checkpoint), JAVA_FLAGS],
        capture_output=True,
        timeout=PROGRAM_S_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()[-4_000:]
    return ended.stdout.decode()


@pytest.fixture
def topics(client: Client, topic: Topic) -> tuple[str, str]:
    name = topic(partitions=2)
    client.produce_many(name, [b"%d" % number for number in range(1_000)], partition=0)
    client.produce_many(name, [b"%d" % number for number in range(500)], partition=1)
    return name, topic(partitions=2)


def test_spark_connect(spark: Any, servers: str, topics: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect speaks gRPC")
    address = f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"
    printed = _run("connect", address, servers, *topics, tmp_path / "checkpoint")
    assert printed.split() == ["count", "1500", "copied", "1500", "refused", "True", "committed", "True"]


@pytest.fixture
def master(_spark_environment: None, tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two workers."""
    home = Path(pyspark.__file__).parent
    port, page_port = free_ports(2)
    address = f"spark://127.0.0.1:{port}"
    log = (tmp_path / "standalone.log").open("wb")
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": JAVA_FLAGS}

    def start(*words: str) -> subprocess.Popen[bytes]:
        launcher = str(home / "bin" / "spark-class")
        return subprocess.Popen([launcher, *words], env=environment, stdout=log, stderr=log)

    daemon = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1"]
    processes = [start(f"{daemon}.master.Master", *here, "--port", str(port), "--webui-port", str(page_port))]
    for number in (1, 2):
        folder = str(tmp_path / f"worker-{number}")
        size = ["--cores", "1", "--memory", "600m", "--work-dir", folder, "--webui-port", "0"]
        processes.append(start(f"{daemon}.worker.Worker", *here, *size, address))
    try:
        wait_until(lambda: len(re.findall(rb"Registering worker", Path(log.name).read_bytes())) == 2, "two workers")
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()
        log.close()


def test_two_workers(master: str, servers: str, topics: tuple[str, str], tmp_path: Path) -> None:
    printed = _run("standalone", master, servers, *topics, tmp_path / "checkpoint")
    words = ["count", "1500", "copied", "1500", "refused", "True", "archived", "1500", "queried", "1500"]
    assert printed.split() == words
