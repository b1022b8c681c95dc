"""Options of a producer."""

from typing import Final, Literal

from flotilla.client._duration import Duration, milliseconds
from flotilla.codec.batch.compression import NAMES
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import BATCH_RECORD_COUNT_MAX, ENTRY_BYTES_MAX, KIB, MIB
from flotilla.types.slotted import frozen

LINGER_MS_DEFAULT: Final = 5
#: Room in a batch for its header, and for offsets that the estimate of a record's size does not cover.
_BATCH_SLACK_BYTES: Final = 64 * KIB


@frozen
class ProducerOptions:
    #: How long a record may wait for others to share its batch.
    linger_ms: int = 0
    #: A batch of few records lingers only while another one is in flight.
    is_prompt: bool = False
    #: A batch is full at either of these.
    batch_bytes: int = 256 * KIB
    batch_records: int = 10_000
    #: Records that were sent and not answered; beyond that, sending waits.
    buffer_bytes_max: int = 32 * MIB
    #: Batches in flight to one partition.
    in_flight_max: int = 8
    #: From sending to the answer.
    timeout_ms: int = 30_000
    #: none, lz4 or zstd.
    compression: str = "none"

    def __post_init__(self) -> None:
        if self.compression not in NAMES.values():
            raise InvalidArgumentError(f"compression is one of {', '.join(NAMES.values())}, not {self.compression!r}")
        for name in ("batch_bytes", "batch_records", "buffer_bytes_max", "in_flight_max", "timeout_ms"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"{name} is at least 1")
        if self.linger_ms < 0:
            raise InvalidArgumentError("linger_ms is at least 0")
        if self.batch_bytes > ENTRY_BYTES_MAX - _BATCH_SLACK_BYTES or self.batch_records > BATCH_RECORD_COUNT_MAX:
            raise InvalidArgumentError(
                f"a batch has at most {BATCH_RECORD_COUNT_MAX} records and {ENTRY_BYTES_MAX} bytes"
            )


def producer_parameters(
    topic: str,
    *,
    linger_ms: Duration | None = None,
    batch_bytes: int = 256 * KIB,
    batch_records: int = 10_000,
    buffer_bytes_max: int = 32 * MIB,
    in_flight_max: int = 8,
    compression: Literal["none", "lz4", "zstd"] = "none",
    timeout_ms: Duration | None = None,
) -> tuple[str, ProducerOptions]:
    """A producer that sends in the background: `send` does not wait for the answer.

    linger_ms: how long the first record of a batch waits for others. None: few records leave at once while nothing is
        in flight to their partition, and else with the next answer; many wait for more, 5 ms at the most.
    batch_bytes, batch_records: a batch is full at either; 256 KiB and 10,000 records.
    buffer_bytes_max: records without an answer; 32 MiB. Beyond that `send` waits.
    in_flight_max: batches in flight to one partition; 8. Of very small batches there may be more, unless it is 1.
    compression: "none", "lz4" or "zstd".
    timeout_ms: records without an answer after this time fail. None: the client's.
    """
    return topic, ProducerOptions(
        linger_ms=LINGER_MS_DEFAULT if linger_ms is None else milliseconds(linger_ms),
        is_prompt=linger_ms is None,
        batch_bytes=batch_bytes,
        batch_records=batch_records,
        buffer_bytes_max=buffer_bytes_max,
        in_flight_max=in_flight_max,
        timeout_ms=30_000 if timeout_ms is None else milliseconds(timeout_ms),
        compression=compression,
    )
