"""The documented project of Spark Declarative Pipelines is run by its own command."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.types.records import Record
from tests.integration.spark.tables import values

pyspark = pytest.importorskip("pyspark", reason="the spark extra")

pytestmark = pytest.mark.slow

PROGRAM_S_MAX = 480
PAGE = Path(__file__).parents[3] / "docs" / "spark-jobs.md"
#: A file's name, and its content.
FILES = re.compile(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(spark: Any, tmp_path: Path, servers: str, topic: Callable[..., str]) -> Iterator[tuple[Path, str, str]]:
    """Its folder, with other places, and the topics that it reads and writes."""
    name, loud = topic(), topic()
    _, _, section = PAGE.read_text().partition("## Declarative Pipelines\n")
    for path, text in FILES.findall(section.partition("\n## ")[0]):
        file = tmp_path / "project" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for old, new in {
            "localhost:7600": servers,
            '"subscribe", "orders"': f'"subscribe", "{name}"',
            "loud-orders": loud,
            "file:///data/pipelines/orders": (tmp_path / "storage").as_uri(),
        }.items():
            text = text.replace(old, new)
        file.write_text(text)
    yield tmp_path / "project", name, loud
    spark.sql("DROP TABLE IF EXISTS orders")


def test_the_documented_project(
    spark: Any, client: Client, servers: str, project: tuple[Path, str, str], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark.pipelines", reason="Spark 4.1")
    pytest.importorskip("grpc", reason="Spark Connect speaks gRPC")
    pytest.importorskip("yaml", reason="spark-pipelines reads YAML")
    folder, name, loud = project
    home = Path(pyspark.__file__).parent
    # The server of the shared session: a JVM of its own would take longer than all else.
    remote = f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"

    client.produce_many(name, [Record(b"a", b"k1"), Record(b"b", b"k2")])
    with (tmp_path / "output").open("w+b") as output:
        # Into a file: a pipe would stay open for as long as any process of Spark's lives.
        done = subprocess.run(
            [str(home / "bin" / "spark-pipelines"), "--remote", remote, "run"],
            cwd=folder,
            env={**os.environ, "SPARK_HOME": str(home)},
            stdout=output,
            stderr=output,
            timeout=PROGRAM_S_MAX,
            check=False,
        )
    assert done.returncode == 0, (tmp_path / "output").read_text(errors="replace")[-4_000:]
    assert values(spark, servers, loud) == ["A", "B"]
    assert sorted((row.id, row.text) for row in spark.table("orders").collect()) == [("k1", "a"), ("k2", "b")]
