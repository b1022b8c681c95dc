"""The operations of a broker: one request and one reply class each, which all layers share.

Grouped by noun: the log, topics, the cluster, queue groups, stream groups, transactions, schedules, users and grants,
quotas, pipelines, backups, what waits, the handshake of a connection. `request.py` says how an operation is declared.
How they travel belongs to `codec/`, what they do to `broker/`.
"""

from typing import Final

from flotilla.types.operations.backup import *  # noqa: F403
from flotilla.types.operations.cluster import *  # noqa: F403
from flotilla.types.operations.group_expiry import *  # noqa: F403
from flotilla.types.operations.handshake import *  # noqa: F403
from flotilla.types.operations.log import *  # noqa: F403
from flotilla.types.operations.pipelines import *  # noqa: F403
from flotilla.types.operations.queue import *  # noqa: F403
from flotilla.types.operations.quotas import *  # noqa: F403
from flotilla.types.operations.request import *  # noqa: F403
from flotilla.types.operations.request import Request
from flotilla.types.operations.schedules import *  # noqa: F403
from flotilla.types.operations.security import *  # noqa: F403
from flotilla.types.operations.stream import *  # noqa: F403
from flotilla.types.operations.topics import *  # noqa: F403
from flotilla.types.operations.transactions import *  # noqa: F403
from flotilla.types.operations.waiting import *  # noqa: F403

#: Every operation by its name.
OPERATIONS: Final[dict[str, type[Request]]] = {
    kind.operation: kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, Request) and kind is not Request
}
