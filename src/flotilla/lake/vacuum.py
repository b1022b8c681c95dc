"""The removal of files that no reader may need: replaced ones, and leftovers of killed attempts.

A file goes when it is older than a grace, was not replaced within it, and is not in the newest version, which is read
after the folder was listed. The grace is longer than a file may wait for its commit (`FILE_AGE_MS_MAX`), so a file that
an archive is about to commit is never old enough.
"""

from typing import Final

from deltalake.exceptions import DeltaError

from flotilla.lake.data_file import remove_files
from flotilla.lake.table import FILE_AGE_MS_MAX, TopicTable
from flotilla.types.errors import InvalidArgumentError, UnavailableError

HOUR_MS: Final = 3_600_000
GRACE_HOURS_DEFAULT: Final = 24
GRACE_HOURS_MIN: Final = 1
assert GRACE_HOURS_MIN * HOUR_MS > FILE_AGE_MS_MAX, "a file that waits for its commit is never old enough"


def vacuum(table: TopicTable, grace_hours: int = GRACE_HOURS_DEFAULT) -> list[str]:
    """Removes files, and returns their paths. Raises InvalidArgumentError for a grace below an hour."""
    if grace_hours < GRACE_HOURS_MIN:
        raise InvalidArgumentError(f"the grace is {GRACE_HOURS_MIN} hour at least: an archive may be writing files")
    paths = removable(table, grace_hours)
    remove_files(table, paths)
    return paths


def removable(table: TopicTable, grace_hours: int) -> list[str]:
    """What a vacuum with this grace would remove."""
    delta = table.delta()
    if delta is None:
        return []
    try:
        found = delta.vacuum(grace_hours, dry_run=True, enforce_retention_duration=False, full=True)
    except (DeltaError, OSError) as error:
        raise UnavailableError(f"the table of {table.topic} cannot be listed: {error}") from error
    named = table.paths_in_use()
    return sorted(path for path in found if path.endswith(".parquet") and path not in named)
