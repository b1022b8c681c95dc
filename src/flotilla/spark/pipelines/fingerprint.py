"""The fingerprint of a failure's reason in Spark: `client/admin/fingerprint` as columns."""

from pyspark.sql import Column, functions

from flotilla.client.admin.fingerprint import NAME_LENGTH, RULES


def shape_column(reason: Column) -> Column:
    shaped = reason
    for pattern, replacement in RULES:
        shaped = functions.regexp_replace(shaped, pattern, replacement)
    return functions.trim(shaped)


def fingerprint_column(shape: Column) -> Column:
    """The fingerprint of a shape."""
    return functions.substring(functions.sha2(shape, 256), 1, NAME_LENGTH)
