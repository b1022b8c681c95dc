"""Registration of the format `flotilla` with a Spark session, and of the listener that commits progress."""

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Sessions that have our listener; a second one would commit twice.
_listened: "WeakSet[SparkSession]" = WeakSet()


def register(spark: "SparkSession") -> None:
    """Makes `format("flotilla")` known to a session. Idempotent."""
    from flotilla.spark.progress import ProgressListener
    from flotilla.spark.source import FlotillaSource

    spark.dataSource.register(FlotillaSource)
    if spark not in _listened:
        spark.streams.addListener(ProgressListener())
        _listened.add(spark)


def register_active() -> None:
    """Registers with the active session of this process, if there is one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        # `pipelines.session` says so in one sentence.
        return
    spark = SparkSession.getActiveSession()
    if spark is not None:
        register(spark)
