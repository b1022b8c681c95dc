"""The Spark session of the command line, and the check for its requirements.

Pipelines run in any session. The schema of global temporary views is `flotilla` here, so `flotilla.orders` is a name in
SQL without rewriting.
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

from flotilla.client.app.environment import VARIABLES as LOG_IN_VARIABLES
from flotilla.security.client_tls import VARIABLES
from flotilla.spark.pipelines.streaming_run import typed_error
from flotilla.types.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The schema of views of topics in SQL.
SCHEMA: Final = "flotilla"
#: Keeps state on disk, so that it may exceed the memory.
_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LOCAL: Final = "local"
#: For one machine; a Spark cluster has its own settings.
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
    # A worker on a busy machine answers late; Spark gives it 15 s.
    "spark.python.authenticate.socketTimeout": "120s",
}
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
#: The quick compiler and the serial collector halve the time of a run of less than a minute.
_BRIEF: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def missing_parts() -> str:
    """What must be installed for a session; empty: nothing."""
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
    """A session that is stopped at the end; if the process has one already, that one, which is left running.

    Raises UnsupportedError when a requirement is missing, and errors of Spark as FlotillaError. `is_brief` is for short
    runs.
    """
    check_parts()
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    is_own = SparkContext._active_spark_context is None
    is_local = master.startswith(_LOCAL)
    if is_local:
        # Spark would use the first Python on the path, which may lack this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # PySpark warns of a feature that is not used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with TemporaryDirectory(prefix="flotilla-spark-", ignore_cleanup_errors=True) as folder:
        java = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}{f' {_BRIEF}' if is_brief else ''}"
        # Executors find the files of TLS and of log-ins under the same names.
        named = (*VARIABLES, *LOG_IN_VARIABLES)
        files = {f"spark.executorEnv.{each}": os.environ[each] for each in named if os.environ.get(each)}
        settings = {**_SETTINGS, **files, "spark.driver.extraJavaOptions": java}
        if is_local:
            # Spark would create this unused folder in the working directory.
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
    """Registers topics and lakes with any session. Idempotent."""
    from flotilla.spark import register
    from flotilla.spark.pipelines.archive_source import ArchiveSource

    register(spark)
    spark.dataSource.register(ArchiveSource)
