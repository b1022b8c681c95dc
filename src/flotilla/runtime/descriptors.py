"""The descriptors of a process, divided at its start: files of the store, links to other nodes, clients, and a reserve.

A process that runs out of descriptors can open no segment and accept no link, and a crowd of clients is the usual
cause. So each part gets a share of what the process may open (`ulimit -n`) and refuses what goes beyond it.
"""

import resource
from dataclasses import dataclass
from typing import Final

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import (
    GRPC_CONNECTION_COUNT_MAX,
    HTTP_STATUS_CONNECTION_COUNT_MAX,
    PEER_HANDSHAKE_COUNT_MAX,
)

#: The journal, files that background work reads and writes, listeners, logs, the interpreter, the process's own client,
#: and connections that are about to be counted.
RESERVE: Final = 96
#: Two for each node of a large cluster, and those that have not introduced themselves.
_PEERS_MAX: Final = 64 + PEER_HANDSHAKE_COUNT_MAX
_PEERS_MIN: Final = 16
_SEGMENTS_MIN: Final = 8
#: A process that may open fewer does not start.
LIMIT_MIN: Final = 192


@dataclass(frozen=True, slots=True)
class DescriptorBudget:
    #: What the process may open.
    limit: int
    #: Segments that the store keeps open for reading.
    segments: int
    peers: int
    #: Connections of clients: gRPC, whose library counts for itself, those of the HTTP endpoint that get the status
    #: pages only, and all others together.
    grpc: int
    status: int
    clients: int


def budget_descriptors(limit: int, *, segments_max: int, has_grpc: bool) -> DescriptorBudget:
    """Raises InvalidArgumentError when the limit is too small for a broker."""
    if limit < LIMIT_MIN:
        raise InvalidArgumentError(
            f"this process may open {limit} files and sockets, and a broker needs at least {LIMIT_MIN}: "
            "raise the limit (`ulimit -n`)"
        )
    segments = max(_SEGMENTS_MIN, min(segments_max, limit // 4))
    peers = max(_PEERS_MIN, min(_PEERS_MAX, limit // 8))
    left = limit - RESERVE - segments - peers
    grpc = min(GRPC_CONNECTION_COUNT_MAX, left // 4) if has_grpc else 0
    status = min(HTTP_STATUS_CONNECTION_COUNT_MAX, left // 8)
    return DescriptorBudget(limit, segments, peers, grpc, status, left - grpc - status)


def raise_descriptor_limit() -> None:
    """Raises the limit as far as the process may. The owner of the process calls it once, at its start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # macOS reports no hard limit and refuses to set none; what is there stays.
        pass
