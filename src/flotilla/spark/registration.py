"""Registration of the format `flotilla` with a Spark session, and of the listener that commits progress.

Spark starts its workers with `python3` of the search path, which need not have Flotilla: a script may be run by the
interpreter of a virtual environment that is not activated. So the folder of this interpreter comes first in the search
path, as if the environment were activated. Executors on other machines have search paths of their own.
"""

import os
import sys
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The variable in which Spark looks for the interpreter of workers.
_PYTHON = "PYSPARK_PYTHON"
#: Sessions that have our listener; a second one would commit twice.
_listened: "WeakSet[SparkSession]" = WeakSet()


def register(spark: "SparkSession") -> None:
    """Makes `format("flotilla")` known to a session. Idempotent."""
    from flotilla.spark.progress import ProgressListener
    from flotilla.spark.source import FlotillaSource

    _use_this_interpreter(spark)
    spark.dataSource.register(FlotillaSource)
    if spark not in _listened:
        spark.streams.addListener(ProgressListener())
        _listened.add(spark)


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
