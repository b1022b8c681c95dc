"""Registration of the format `flotilla` with a Spark session, and of the listener that commits progress.

Spark starts its workers with `python3` of the search path, which need not have Flotilla: a script may be run by the
interpreter of a virtual environment that is not activated. So the folder of this interpreter comes first in the search
path, as if the environment were activated. Executors on other machines have search paths of their own.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The variable in which Spark looks for the interpreter of workers.
_PYTHON = "PYSPARK_PYTHON"
#: Ids of sessions that have our listener; a second one would commit twice.
_listened: set[str] = set()
#: What Spark's own processes import before they answer, within 10 s that no setting changes.
_PLANNER: Final = (
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
)


def register(spark: "SparkSession") -> None:
    """Makes `format("flotilla")` known to a session. Idempotent."""
    from flotilla.spark.progress import ProgressListener
    from flotilla.spark.source import FlotillaSource

    _use_this_interpreter(spark)
    import_planner()
    spark.dataSource.register(FlotillaSource)
    session = session_id(spark)
    if session not in _listened:
        spark.streams.addListener(ProgressListener(session))
        _listened.add(session)


def session_id(spark: "SparkSession") -> str:
    """One session may have several objects, and a process several sessions."""
    try:
        found = spark._jsparkSession.sessionUUID()  # type: ignore[attr-defined, unused-ignore]
    except AttributeError:
        # A remote session.
        found = spark.session_id  # type: ignore[attr-defined, unused-ignore]
    return str(found)


def import_planner() -> None:
    """The modules are compiled and in the machine's memory when Spark starts a process that needs them."""
    for name in _PLANNER:
        # Another version of Spark may have other ones, and does without.
        with suppress(ImportError):
            import_module(name)


def _use_this_interpreter(spark: "SparkSession") -> None:
    """For a session on this machine that began before the search path was changed."""
    try:
        context = spark.sparkContext
    except Exception:
        # A remote session has none.
        return
    is_chosen = _PYTHON in os.environ or context.getConf().contains("spark.pyspark.python")
    if (context.master or "").startswith("local") and not is_chosen:
        context.pythonExec = sys.executable


def register_active() -> None:
    """Registers with the active session of this process, if there is one. Later ones find this interpreter, too."""
    folder = os.path.dirname(sys.executable)
    paths = os.environ.get("PATH", "").split(os.pathsep)
    if os.path.exists(os.path.join(folder, "python3")) and paths[0] != folder:
        os.environ["PATH"] = os.pathsep.join([folder, *paths])
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        # `pipelines.session` says so in one sentence.
        return
    spark = SparkSession.getActiveSession()
    if spark is not None:
        register(spark)
