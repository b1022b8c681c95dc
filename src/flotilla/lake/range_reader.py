"""The rows of one range of offsets out of the files of a table: each once, in order, by the runs in their descriptions.

Rows of one partition are next to each other in a file, so a file is read from its first wanted row to its last.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from flotilla.lake.columns import STORED
from flotilla.lake.compaction import Piece, pieces_in_order
from flotilla.lake.data_file import DataFile, read_description
from flotilla.lake.offset_range import OffsetRange
from flotilla.lake.runs import Run, join_runs
from flotilla.lake.table import TopicTable
from flotilla.types.errors import CorruptionError


class ArchivedRange(NamedTuple):
    """The work of a task: offsets that are in the lake, and the files that may have some of them."""

    table: TopicTable
    wanted: OffsetRange
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.wanted)

    def batches(self, schema: Any = STORED) -> Iterator[Any]:
        """The rows, with these columns of the table. Raises CorruptionError if one is missing or doubled."""
        files = [read_description(self.table, path) for path in self.paths]
        pieces = wanted_pieces(files, self.wanted)
        with ExitStack() as opened:
            yield from pieces_in_order(self.table, files, pieces, opened, schema)


def wanted_pieces(files: Sequence[DataFile], wanted: OffsetRange) -> list[Piece]:
    """Where the rows of a range are. Raises CorruptionError if one is missing or doubled."""
    pieces = []
    for at, file in enumerate(files):
        row = 0
        for run in file.runs:
            first, end = max(run.first, wanted.first), min(run.end, wanted.end)
            if run.partition == wanted.partition and first < end:
                pieces.append(Piece(Run(run.partition, first, end), at, row + first - run.first))
            row += run.end - run.first
    if join_runs(piece.run for piece in pieces) != [Run(wanted.partition, wanted.first, wanted.end)]:
        raise CorruptionError(f"the lake does not have all of {wanted}")
    return pieces
