"""`python -m tests.delta_spark`: Spark with delta-spark counts the rows of a lake, in an environment of its own.

There is no delta-spark for the Spark that Flotilla needs: releases are made for one minor version of Spark, and fail on
a later one. So it is run on the newest Spark that it has a release for, over a table with compacted files and with
decoded columns. Maven fetches the jars.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from flotilla.lake.archive import run_here
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.lake import Lake
from tests.unit.lake.stored_rows import written
from tests.unit.lake.test_decoded_columns import OLD, VALUES, decoded_file

SPARK = "4.2.0"
DELTA = "4.4.0"
JARS = ("delta-spark_4.2_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")
PROGRAM = """
import sys
from pyspark.sql import SparkSession

jars, address = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
rows = builder.getOrCreate().read.format("delta").load(address)
print(rows.count(), rows.select("partition", "offset").distinct().count(), rows.where("decoded.id > 0").count())
"""


def make_table(lake: str) -> str:
    """The address of a table of 554 rows, of which two have a decoded number."""
    table = Lake(lake).table("orders")
    for number in range(5):
        table.add([written(table, 0, number * 100, 100)])
    compact(table, CompactionRules(files_min=2), run_here)
    table.add([decoded_file(table, 500, OLD, VALUES)], "orders")
    table.add([written(table, 1, 0, 50)])
    return table.address


def run(*command: str | Path) -> str:
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run(sys.executable, "-m", "venv", folder / "environment")
        python = folder / "environment" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"pyspark=={SPARK}")
        jars = folder / "jars"
        for name in JARS:
            fetch = ("mvn", "--batch-mode", "--quiet", "dependency:get", "-Dtransitive=false")
            run(*fetch, f"-Dartifact=io.delta:{name}:{DELTA}", f"-Dmaven.repo.local={jars}")
        found = [str(jars / "io" / "delta" / name / DELTA / f"{name}-{DELTA}.jar") for name in JARS]
        counted = run(python, "-c", PROGRAM, ",".join(found), make_table(str(folder / "lake")))
        assert counted.split() == ["554", "554", "2"], counted
        print(f"Spark {SPARK} with delta-spark {DELTA} counts 554 rows, each once")


if __name__ == "__main__":
    main()
