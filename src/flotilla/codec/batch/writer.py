"""The writer of batches: gathers columns in the order of the layout, pads, joins and seals them.

It writes what `columns` reads. The columns come from records, or from a batch that is being cut.
"""

from collections.abc import Sequence
from typing import Final

from flotilla.codec.batch.columns import COLUMNS_AT, DIRECTORY, Buffer
from flotilla.codec.batch.compression import NONE, compress
from flotilla.codec.batch.header import pack_header
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import ENTRY_BYTES_MAX

_PADDING: Final = tuple(bytes(size) for size in range(8))


class BatchWriter:
    """One unfinished batch. Constants are set directly; columns are added in the order of their bits."""

    __slots__ = (
        "_blobs",
        "_columns",
        "_columns_bytes",
        "content_type",
        "deliver_at_ms",
        "max_deliveries",
        "present",
        "priority",
        "ttl_ms",
    )

    def __init__(self, payload_offsets: bytes) -> None:
        self.present = 0
        self.priority = 0
        self.content_type = 0
        self.deliver_at_ms = 0
        self.ttl_ms = 0
        self.max_deliveries = 0
        self._columns: list[Buffer] = []
        self._blobs: list[Buffer] = []
        self._columns_bytes = 0
        self._append(self._columns, payload_offsets)

    def add(self, bit: int, column: Buffer, blob: Buffer | None = None) -> None:
        """A column of fixed width, or offsets with the bytes they point into."""
        assert bit >= self.present & ~bit, "columns are added in the order of their bits"
        self.present |= bit
        self._append(self._columns, column)
        if blob is not None:
            self._append(self._blobs, blob)

    def _append(self, pieces: list[Buffer], piece: Buffer) -> None:
        size_bytes = len(piece)
        padding = -size_bytes & 7
        pieces.append(piece)
        if padding:
            pieces.append(_PADDING[padding])
        self._columns_bytes += size_bytes + padding

    def seal(
        self,
        payloads: Sequence[Buffer],
        *,
        payload_bytes: int,
        count: int,
        first_time_ms: int,
        max_time_ms: int,
        compression: int = NONE,
        producer_id: int = 0,
        producer_epoch: int = 0,
        sequence: int = 0,
    ) -> tuple[bytes, bytes]:
        """The header, without base offset and term, and everything after it."""
        body_bytes = self._columns_bytes + payload_bytes
        if body_bytes > ENTRY_BYTES_MAX - COLUMNS_AT:
            raise InvalidArgumentError(f"columns of {body_bytes} bytes are too many for one batch")
        directory = DIRECTORY.pack(
            self.present, self.priority, self.content_type, body_bytes,
            self.deliver_at_ms, self.ttl_ms, self.max_deliveries, 0, 0,
        )  # fmt: skip
        if compression == NONE:
            rest = b"".join([directory, *self._columns, *self._blobs, *payloads])
        else:
            compression, body = compress(compression, b"".join([*self._columns, *self._blobs, *payloads]))
            rest = directory + body
        header = pack_header(
            rest,
            count=count,
            first_time_ms=first_time_ms,
            max_time_ms=max_time_ms,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            producer_sequence=sequence,
        )
        return header, rest
