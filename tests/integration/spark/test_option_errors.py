"""Invalid options are refused by name, before a job starts."""

from typing import Any

import pytest

from tests.integration.spark.tables import read, write


def test_a_bad_option_of_a_read(spark: Any) -> None:
    with pytest.raises(Exception, match=r"(?s)no option 'startingoffset'; did you mean startingOffsets"):
        read(spark, "localhost:1", subscribe="t", startingOffset="latest").count()


def test_a_bad_write(spark: Any) -> None:
    with pytest.raises(Exception, match=r"(?s)column 'id' cannot be written"):
        write(spark.range(1), "localhost:1", topic="t")


def test_a_cluster_that_does_not_answer_fails_the_read(spark: Any) -> None:
    with pytest.raises(Exception, match=r"(?s)not done in time"):
        read(spark, "127.0.0.1:1", subscribe="t", timeoutMs="500").count()
