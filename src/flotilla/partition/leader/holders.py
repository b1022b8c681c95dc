"""Who may hold leases of one group, at its leader: names in the log, changes on their way there, and who is awaited.

A member gets its first lease when its name has committed, so a new leader finds the names of all that can hold leases
of earlier ones. It waits until each has presented its leases in the new term, or for the grace period. A member is
forgotten, by the log too, when it is lost, when it was not seen for long, and when it has not come in the grace period.
From the proposal to forget it on, it gets no lease before it has joined again.
"""

from collections.abc import Callable

from flotilla.partition.commands.holders import ChangeHolders
from flotilla.partition.leader.leases import MEMBER_IDLE_MS
from flotilla.partition.state.group import GroupState
from flotilla.types.limits import HOLDER_COUNT_MAX

#: Stands for all members that present no leases, and for those beyond HOLDER_COUNT_MAX.
UNNAMED = ""
#: Names in one command.
_NAMES_MAX = 256
#: How often members that were not seen for long are looked for.
_SCAN_MS = 60_000


class Holders:
    def __init__(self, name: str, state: GroupState, now_ms: int, *, is_awaiting: bool) -> None:
        """`is_awaiting`: members may hold leases of earlier leaders."""
        self._name = name
        self._state = state
        self._generation = state.generation
        #: Members of earlier leaders that have not presented their leases.
        self.awaited: dict[str, None] = dict(state.holders) if is_awaiting else {}
        self._began_ms = now_ms
        #: When each was last heard of in this term.
        self._seen_ms: dict[str, int] = {}
        #: To be proposed.
        self._joining: dict[str, None] = {}
        self._leaving: dict[str, None] = {}
        self._in_flight: ChangeHolders | None = None
        self._scan_ms = now_ms + _SCAN_MS

    def admits(self, name: str, now_ms: int) -> bool:
        """Whether the member may get leases now. Otherwise `take_change` has its name."""
        if now_ms >= self._scan_ms:
            self._scan_ms = now_ms + _SCAN_MS
            self._forget_idle(now_ms)
        name = self._known_as(name)
        self._seen_ms[name] = now_ms
        self._leaving.pop(name, None)
        in_flight = self._in_flight
        if name in self._state.holders and (in_flight is None or name not in in_flight.left):
            return True
        if in_flight is None or name not in in_flight.joined:
            self._joining[name] = None
        return False

    def _known_as(self, name: str) -> str:
        holders = self._state.holders
        return name if name in holders or len(holders) < HOLDER_COUNT_MAX else UNNAMED

    def _forget_idle(self, now_ms: int) -> None:
        for name in self._state.holders:
            if self._seen_ms.get(name, self._began_ms) + MEMBER_IDLE_MS <= now_ms and name not in self.awaited:
                self._leaving[name] = None

    def is_known(self, name: str) -> bool:
        return name in self._state.holders

    def see(self, name: str, now_ms: int) -> None:
        """The member is there, without asking for messages."""
        self._seen_ms[self._known_as(name)] = now_ms

    def lost(self, name: str) -> None:
        """The member is gone, and its leases with it."""
        self._joining.pop(name, None)
        self._seen_ms.pop(name, None)
        if name in self._state.holders:
            self._leaving[name] = None

    # The grace period.

    def presented(self, name: str) -> None:
        """The member has presented all leases that it has from earlier leaders."""
        self.awaited.pop(name, None)

    def stop_waiting(self) -> None:
        """The grace period is over: forgets members that did not come."""
        for name in self.awaited:
            if name not in self._seen_ms and name in self._state.holders:
                self._leaving[name] = None
        self.awaited = {}

    # The log.

    @property
    def has_change(self) -> bool:
        return self._in_flight is None and bool(self._joining or self._leaving)

    def take_change(self, now_ms: int, has_leases: Callable[[str], bool]) -> ChangeHolders | None:
        """The command to propose now; report its end by `decided`. None: there is none, or one is in flight."""
        if not self.has_change:
            return None
        joined = list(self._joining)[:_NAMES_MAX]
        left = list(self._leaving)[:_NAMES_MAX]
        for name in joined:
            del self._joining[name]
        for name in left:
            del self._leaving[name]
        named = [name for name in joined if name != UNNAMED]
        # Those that do not fit ask again, and share a name.
        beyond = named[max(HOLDER_COUNT_MAX - len(self._state.holders), 0) :]
        joined = [name for name in joined if name not in beyond]
        left = [name for name in left if not has_leases(name)]
        if not joined and not left:
            return None
        self._in_flight = ChangeHolders(self._name, self._generation, now_ms, tuple(joined), tuple(left))
        return self._in_flight

    def decided(self, command: ChangeHolders) -> None:
        """The command has committed, or was refused: then its members ask again."""
        if command is self._in_flight:
            self._in_flight = None
