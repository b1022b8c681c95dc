"""Conditions of SQL that choose rows, as `--where` takes them."""

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from flotilla.types.errors import InvalidArgumentError


def chosen_rows(rows: DataFrame, where: str) -> DataFrame:
    """The rows for which a condition holds. Raises InvalidArgumentError."""
    try:
        return rows.where(where)
    except (ParseException, AnalysisException) as error:
        columns = ", ".join(rows.columns)
        raise InvalidArgumentError(
            f"--where {where!r} is no condition: {str(error).splitlines()[0]}; the columns are {columns}"
        ) from None
