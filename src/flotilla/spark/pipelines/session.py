"""The Spark session that a pipeline runs in, and what is missing when there can be none.

Pipelines take any session; this is the one that the command line makes. The schema `flotilla` is the session's place
for views that no catalog keeps, so `flotilla.orders` is a name in SQL and needs no rewriting.
"""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from flotilla.spark.pipelines.streaming_run import typed_error
from flotilla.types.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where views of topics are, as SQL spells it.
SCHEMA: Final = "flotilla"
#: Stateful queries keep their state on disk, so that it may be larger than memory.
_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LOCAL: Final = "local"
#: What one machine needs; a cluster has settings of its own.
_LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(max(os.cpu_count() or 1, 2)),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.globalTempDatabase": SCHEMA,
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
    "spark.ui.showConsoleProgress": "false",
}
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
#: Only the quick compiler and the simple collector: half of the time for what is over in a minute.
_BRIEF: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def missing_parts() -> str:
    """What has to be installed before a session can be made; empty: nothing."""
    try:
        import pyarrow  # type: ignore[import-untyped]  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError:
        return 'PySpark is not installed: pip install "flotilla-mq[spark]"'
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").exists()):
        return "Java is not installed: Spark needs a Java runtime, version 17 or newer (or JAVA_HOME, if there is one)"
    return ""


def check_parts() -> None:
    """Raises UnsupportedError when Spark or Java is not installed."""
    missing = missing_parts()
    if missing:
        raise UnsupportedError(missing)


@contextmanager
def open_session(name: str, master: str = "local[*]", *, is_brief: bool = False) -> Iterator["SparkSession"]:
    """A session that is stopped at the end, unless the process had one: then that is it, and it goes on.

    Raises UnsupportedError when something is not installed, and what Spark raises as an error of ours. `is_brief` is
    for what is over soon.
    """
    check_parts()
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    is_own = SparkContext._active_spark_context is None
    is_local = master.startswith(_LOCAL)
    if is_local:
        # Spark would take the first Python of the path, which need not have this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Said by PySpark itself of what nothing here uses.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with TemporaryDirectory(prefix="flotilla-spark-", ignore_cleanup_errors=True) as folder:
        java = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}{f' {_BRIEF}' if is_brief else ''}"
        settings = {**_SETTINGS, "spark.driver.extraJavaOptions": java}
        if is_local:
            # Spark makes this folder wherever it is started, and nothing here uses it.
            settings |= {**_LOCAL_SETTINGS, "spark.sql.warehouse.dir": folder}
        builder = SparkSession.builder.appName(f"flotilla {name}").master(master)
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        try:
            prepare(spark)
            yield spark
        except PySparkException as error:
            raise typed_error(error) from error
        finally:
            if is_own:
                spark.stop()


def prepare(spark: "SparkSession") -> None:
    """Makes topics and lakes known to a session, whoever made it. Doing it again changes nothing."""
    from flotilla.spark import register
    from flotilla.spark.pipelines.archive_source import ArchiveSource

    register(spark)
    spark.dataSource.register(ArchiveSource)
