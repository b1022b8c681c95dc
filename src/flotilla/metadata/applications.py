"""The newest committed version of each application, so that none is committed twice.

A version is remembered for APPLICATION_REMEMBERED_MS after the application's last commit. Of an application that is
idle for longer only a hash of its name is kept: its commits are refused, because its versions are forgotten, until an
operator forgets the application wholly. A new application is refused while the table is full; transactions without an
application have nothing to do with it.

An application belongs to the user who committed for it first, as long as it is remembered. What callers committed who
were not asked who they are, or did not say, is taken over by the first user who commits.
"""

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from flotilla.types.access import ANYONE
from flotilla.types.errors import ForgottenError, OverloadedError, PermissionDeniedError

#: The horizon of versions.
APPLICATION_REMEMBERED_MS: Final = 30 * 24 * 3_600_000
#: Bound the memory of all replicas. Idle applications stay whole while there is no room for their hashes.
APPLICATION_COUNT_MAX: Final = 200_000
IDLE_APPLICATION_COUNT_MAX: Final = 1_000_000
#: Bounds the work of one commit.
_FORGOTTEN_AT_ONCE: Final = 64
#: Owners whose applications the next user takes over.
_NOBODY: Final = ("", ANYONE.name)


class Used(NamedTuple):
    """An application that has committed."""

    #: The newest one.
    version: int
    #: The time of its last commit.
    used_ms: int
    #: The user who committed first; empty: nobody was asked who they are, or an operator committed.
    owner: str = ""


class FrozenApplications(NamedTuple):
    """A table as it was when the view was taken. Any thread may read it."""

    used: Mapping[str, Used]
    idle: Mapping[int, None]


class ApplicationTable:
    __slots__ = ("_idle", "_used")

    def __init__(self) -> None:
        #: In the order of their last commit. Not a plain dict, whose first key is slow to find after deletions.
        self._used: OrderedDict[str, Used] = OrderedDict()
        #: Hashes of the names of forgotten ones.
        self._idle: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._used)

    @property
    def idle_count(self) -> int:
        return len(self._idle)

    def get(self, name: str) -> Used | None:
        return self._used.get(name)

    def check_owner(self, name: str, owner: str) -> None:
        """Raises PermissionDeniedError for a user whose application it is not. An empty owner is anybody."""
        used = self._used.get(name)
        if used is not None and owner and used.owner not in (*_NOBODY, owner):
            raise PermissionDeniedError(f"application {name} belongs to another user, who committed first")

    def check(self, name: str) -> None:
        """Raises the error that a commit of the application is refused with."""
        if name in self._used:
            return
        if _hash(name) in self._idle:
            raise ForgottenError(
                f"application {name} was idle for more than {APPLICATION_REMEMBERED_MS // 86_400_000} days, so its "
                f"versions are forgotten: commit under another name, or forget it (flotilla transaction forget)"
            )
        if len(self._used) >= APPLICATION_COUNT_MAX:
            raise OverloadedError(
                f"{APPLICATION_COUNT_MAX} applications are remembered: no new one can commit before some are forgotten"
            )

    def commit(self, name: str, version: int, now_ms: int, owner: str = "") -> None:
        """The application has committed a version. It belongs to its first owner."""
        # Not move_to_end: `freeze` needs the order of the dict below.
        known = self._used.pop(name, None)
        self._used[name] = Used(version, now_ms, owner if known is None or known.owner in _NOBODY else known.owner)
        self._trim(now_ms)

    def knows(self, name: str) -> bool:
        """Whether it has committed, as far as that is remembered."""
        return name in self._used or _hash(name) in self._idle

    def forget(self, name: str) -> None:
        """From now on it is a new application."""
        self._used.pop(name, None)
        self._idle.pop(_hash(name), None)

    def _trim(self, now_ms: int) -> None:
        for _ in range(_FORGOTTEN_AT_ONCE):
            name, used = next(iter(self._used.items()))
            if now_ms - used.used_ms < APPLICATION_REMEMBERED_MS or len(self._idle) >= IDLE_APPLICATION_COUNT_MAX:
                return
            del self._used[name]
            self._idle[_hash(name)] = None

    def freeze(self) -> FrozenApplications:
        # The dict below an OrderedDict has its order; copying that is ten times as fast.
        return FrozenApplications(dict.copy(self._used), self._idle.copy())

    def put(self, frozen: FrozenApplications) -> None:
        """Restores an empty table."""
        self._used.update(frozen.used)
        self._idle.update(frozen.idle)


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
