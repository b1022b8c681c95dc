"""The measures of every contestant: names, units, which way is better, and Flotilla's goals."""

from dataclasses import dataclass
from enum import Enum

from bench.broker.beside import PAYLOADS_BYTES, size
from bench.figure import Goal

RATE = 1_000
CONSUMERS = (1, 4)
_NO_GOAL = Goal(None)


class Better(Enum):
    LESS = "less"
    MORE = "more"
    #: For information only.
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    unit: str
    better: Better
    #: For Flotilla's value divided by that of the best peer.
    goal: Goal = _NO_GOAL
    #: The peers' measure to compare with, where that has another name.
    beside: str = ""

    @property
    def peers_name(self) -> str:
        return self.beside or self.name


def one_in_flight(payload_bytes: int) -> tuple[Measure, Measure, Measure, Measure]:
    name = f"W1 one in flight, {size(payload_bytes)}"
    return (
        Measure(name, "msg/s", Better.MORE),
        Measure(f"{name}, p50", "ms", Better.LESS, Goal(0.8, at_most=True)),
        Measure(f"{name}, p99", "ms", Better.LESS, Goal(1.5, at_most=True)),
        Measure(f"{name}, processor of all nodes", "us/msg", Better.LESS),
    )


def pipelined(payload_bytes: int) -> tuple[Measure, Measure]:
    name = f"W2 pipelined, {size(payload_bytes)}"
    return (
        Measure(name, "msg/s", Better.MORE, Goal(4.0)),
        Measure(f"{name}, processor of all nodes", "us/msg", Better.LESS),
    )


def in_bulk(payload_bytes: int) -> Measure:
    name = f"W2 in one call, {size(payload_bytes)}"
    return Measure(name, "msg/s", Better.MORE, Goal(12.0), beside=pipelined(payload_bytes)[0].name)


def replay(payload_bytes: int) -> Measure:
    return Measure(f"W3 replay, {size(payload_bytes)}", "msg/s", Better.MORE)


def drain(payload_bytes: int, consumers: int) -> Measure:
    return Measure(f"W3 drain and ack x{consumers}, {size(payload_bytes)}", "msg/s", Better.MORE)


def end_to_end(payload_bytes: int) -> tuple[Measure, Measure]:
    name = f"W4 end to end at {RATE:,} msg/s, {size(payload_bytes)}"
    return (
        Measure(f"{name}, p50", "ms", Better.LESS, Goal(1.0, at_most=True)),
        Measure(f"{name}, p99", "ms", Better.LESS, Goal(1.0, at_most=True)),
    )


def produce_to_push(payload_bytes: int) -> tuple[Measure, Measure]:
    name = f"W5 produce to push at {RATE:,} msg/s, {size(payload_bytes)}"
    return (
        Measure(f"{name}, p50", "ms", Better.LESS, Goal(1.0, at_most=True)),
        Measure(f"{name}, p99", "ms", Better.LESS, Goal(1.0, at_most=True)),
    )


def apart(payload_bytes: int) -> tuple[Measure, Measure, Measure]:
    name = f"W7 two processes at {RATE:,} msg/s, {size(payload_bytes)}"
    return (
        Measure(f"{name}, p50", "ms", Better.LESS, Goal(1.0, at_most=True)),
        Measure(f"{name}, p99", "ms", Better.LESS, Goal(1.0, at_most=True)),
        Measure(f"{name}, processor of nodes and clients", "us/msg", Better.LESS),
    )


def apart_one_in_flight(payload_bytes: int) -> tuple[Measure, Measure, Measure]:
    name = f"W8 two processes, one in flight, {size(payload_bytes)}"
    return (
        Measure(f"{name}, p50", "ms", Better.LESS),
        Measure(f"{name}, p99", "ms", Better.LESS, Goal(1.5, at_most=True)),
        Measure(f"{name}, processor of nodes and clients", "us/msg", Better.LESS),
    )


FAILOVER = Measure("W6 kill -9 to next ack", "s", Better.LESS)
LOST = Measure("W6 acknowledged and lost", "msg", Better.NEITHER)
RESIDENT = Measure("memory of a node after the work", "MB", Better.NEITHER)
DISK_P50 = Measure("probe: append of 100 B + fdatasync, p50", "ms", Better.NEITHER)
DISK_RATE = Measure("probe: appends of 256 KB + fdatasync", "MB/s", Better.NEITHER)
ECHO_P50 = Measure("probe: loopback echo of 100 B, p50", "ms", Better.NEITHER)
COPY_RATE = Measure("probe: loopback copy", "MB/s", Better.NEITHER)

#: In the order of the table.
ALL: tuple[Measure, ...] = (
    *(measure for payload_bytes in PAYLOADS_BYTES for measure in one_in_flight(payload_bytes)),
    *(measure for payload_bytes in PAYLOADS_BYTES for measure in pipelined(payload_bytes)),
    *(in_bulk(payload_bytes) for payload_bytes in PAYLOADS_BYTES),
    *(replay(payload_bytes) for payload_bytes in PAYLOADS_BYTES),
    *(drain(payload_bytes, consumers) for payload_bytes in PAYLOADS_BYTES for consumers in CONSUMERS),
    *(measure for payload_bytes in PAYLOADS_BYTES for measure in end_to_end(payload_bytes)),
    *(measure for payload_bytes in PAYLOADS_BYTES for measure in produce_to_push(payload_bytes)),
    *(measure for payload_bytes in PAYLOADS_BYTES for measure in apart(payload_bytes)),
    *(measure for payload_bytes in PAYLOADS_BYTES for measure in apart_one_in_flight(payload_bytes)),
    FAILOVER,
    LOST,
    RESIDENT,
    DISK_P50,
    DISK_RATE,
    ECHO_P50,
    COPY_RATE,
)
