"""Makes the format known to a session, and has the session tell groups how far its queries are."""

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Sessions that have a listener of ours: a second one would do everything twice.
_listened: "WeakSet[SparkSession]" = WeakSet()


def register(spark: "SparkSession") -> None:
    """Makes `format("flotilla")` known to a session. Doing it again changes nothing."""
    from flotilla.spark.progress import ProgressListener
    from flotilla.spark.source import FlotillaSource

    spark.dataSource.register(FlotillaSource)
    if spark not in _listened:
        spark.streams.addListener(ProgressListener())
        _listened.add(spark)


def register_active() -> None:
    """Does so for the session that is active in this process, if any."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is not None:
        register(spark)
