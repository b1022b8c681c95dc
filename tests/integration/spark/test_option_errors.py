"""Invalid options are refused by name, before a job starts."""

from typing import Any

import pytest

from tests.integration.spark.tables import read, write


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of the options subscribe, subscribePattern and assign"),
        ({"subscribe": "t", "startingOffset": "latest"}, "no option 'startingoffset'; did you mean startingOffsets"),
        ({"subscribe": "t", "minPartitions": "many"}, "option minPartitions takes 1 to 1000000, not 'many'"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "5"}, "option maxOffsetsPerTrigger is not for read"),
        ({"subscribe": "t", "columns": "value,size"}, "option columns names 'size'"),
    ],
)  # fmt: skip
def test_a_bad_option_of_a_read(spark: Any, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=f"(?s){words}"):
        read(spark, "localhost:1", **options).count()


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (["id"], {"topic": "t"}, "column 'id' cannot be written"),
        (["id as value"], {"topic": "t"}, "column value is bigint; it must be binary or string"),
        (["'x' as value"], {}, "the option topic or a column topic must name"),
        (["'x' as key"], {"topic": "t"}, "there is no column value"),
        (["'x' as value"], {"topic": "t", "deliveryGuarantee": "twice"}, "transactional, idempotent or atLeastOnce"),
        (["'x' as value"], {"topic": "t", "version": "1"}, "go together"),
    ],
)
def test_a_bad_write(spark: Any, columns: list[str], options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=f"(?s){words}"):
        write(spark.range(1).selectExpr(*columns), "localhost:1", **options)


def test_a_cluster_that_does_not_answer_fails_the_read(spark: Any) -> None:
    with pytest.raises(Exception, match=r"(?s)not done in time"):
        read(spark, "127.0.0.1:1", subscribe="t", timeoutMs="500").count()
