"""A view of one batch that decodes only what is asked for.

For readers that want one record of many, and for Arrow: the public `columns` are views of the batch without a copy, in
the buffers that `pyarrow` takes. Opening costs a few microseconds for any batch, and the checksum.
"""

from collections.abc import Iterator

from flotilla.codec.batch.columns import Buffer, open_columns
from flotilla.codec.batch.header import check, parse_header
from flotilla.codec.batch.records import records_of
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import ENTRY_BYTES_MAX
from flotilla.types.records import Headers, Record


class BatchView:
    """Access by position in the batch, 0 to count - 1; negative positions are refused.

    Every method raises InvalidArgumentError if the batch is malformed where it reads: an unchecked batch is safe too.
    """

    __slots__ = ("columns", "header")

    def __init__(self, buffer: Buffer, *, verify: bool = True, body_bytes_max: int = ENTRY_BYTES_MAX) -> None:
        """`verify=False` skips the checksum, for bytes that were checked before."""
        self.header = check(buffer) if verify else parse_header(buffer)
        self.columns = open_columns(buffer, self.header, body_bytes_max)

    def __len__(self) -> int:
        return self.header.count

    @property
    def count(self) -> int:
        return self.header.count

    @property
    def priority(self) -> int:
        """The priority of every record."""
        return self.columns.directory.priority

    @property
    def deliver_at_ms(self) -> int:
        """The delivery time of every record; 0: at once."""
        return self.columns.directory.deliver_at_ms

    def offset(self, position: int) -> int:
        """The offset in the partition, once a leader has assigned it."""
        return self.header.base_offset + self._checked(position)

    def payload(self, position: int) -> bytes:
        return self.columns.payloads.item(self._checked(position))

    def key(self, position: int) -> bytes | None:
        self._checked(position)
        columns = self.columns
        if columns.keys is None:
            return None
        validity = columns.key_validity
        if validity is not None and not validity[position >> 3] >> (position & 7) & 1:
            return None
        return columns.keys.item(position)

    def timestamp_ms(self, position: int) -> int:
        return self._fixed(self.columns.timestamps, self.header.first_time_ms, position)

    def ttl_ms(self, position: int) -> int:
        return self._fixed(self.columns.ttls, self.columns.directory.ttl_ms, position)

    def max_deliveries(self, position: int) -> int:
        return self._fixed(self.columns.max_deliveries, self.columns.directory.max_deliveries, position)

    def content_type(self, position: int) -> int:
        return self._fixed(self.columns.content_types, self.columns.directory.content_type, position)

    def idempotency_key(self, position: int) -> bytes:
        self._checked(position)
        column = self.columns.idempotency_keys
        return b"" if column is None else column.item(position)

    def headers(self, position: int) -> Headers:
        self._checked(position)
        columns = self.columns
        if columns.header_offsets is None or columns.header_names is None or columns.header_values is None:
            return ()
        start: int = columns.header_offsets[position]
        end: int = columns.header_offsets[position + 1]
        if not 0 <= start <= end < len(columns.header_names.offsets):
            raise InvalidArgumentError("an offset points outside of its column")
        try:
            return tuple(
                (columns.header_names.item(pair).decode(), columns.header_values.item(pair))
                for pair in range(start, end)
            )
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(f"a header name is not UTF-8: {error}") from error

    def record(self, position: int) -> Record:
        return Record(
            self.payload(position),
            self.key(position),
            self.headers(position),
            self.timestamp_ms(position),
            self.priority,
            self.content_type(position),
            self.deliver_at_ms,
            self.ttl_ms(position),
            self.idempotency_key(position),
            self.max_deliveries(position),
        )

    def payloads(self) -> list[bytes]:
        return self.columns.payloads.items()

    def records(self) -> list[Record]:
        return records_of(self.columns, self.header.first_time_ms)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records())

    def _checked(self, position: int) -> int:
        if not 0 <= position < self.header.count:
            raise InvalidArgumentError(f"the batch has no record {position}, only {self.header.count} of them")
        return position

    def _fixed(self, column: memoryview | None, constant: int, position: int) -> int:
        self._checked(position)
        if column is None:
            return constant
        found: int = column[position]
        return found
