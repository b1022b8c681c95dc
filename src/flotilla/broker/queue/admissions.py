"""Members whose names are on their way into the log of one partition, and the requests that wait for it.

A member gets its first lease when its name has committed, so that a new leader knows whom to wait for.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from flotilla.broker.ports import Outside
from flotilla.partition.commands.partition_commands import ChangeHolders, encode_command
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.types.errors import FlotillaError

#: After the log has refused the name of a member.
_RETRY_MS = 200

Admitted: TypeAlias = Callable[[FlotillaError | None], None]


class Admissions:
    def __init__(
        self,
        leader: QueueLeader,
        propose: Callable[[bytes, Callable[[object], None]], bool],
        outside: Outside,
        now_ms: Callable[[], int],
        *,
        changed: Callable[[str], None],
        retry: Callable[[str], None],
    ) -> None:
        """`changed` is called when members of a group have joined or left, `retry` some time after that failed."""
        self._leader = leader
        self._propose = propose
        self._outside = outside
        self._now_ms = now_ms
        self._changed = changed
        self._retry = retry
        #: By group.
        self._waiting: dict[str, list[tuple[str, Admitted]]] = {}
        self._is_ended = False

    def admit(self, group: str, holder: str, admitted: Admitted) -> None:
        """Calls `admitted` when the member may hold leases. Call `propose` after it."""
        try:
            is_admitted = self._leader.admits(group, holder, self._now_ms())
        except FlotillaError as error:
            admitted(error)
            return
        if is_admitted:
            admitted(None)
        else:
            self._waiting.setdefault(group, []).append((holder, admitted))

    def propose(self) -> None:
        """Proposes the names of all that wait."""
        for change in self._leader.take_holder_changes(self._now_ms()):
            self._propose(encode_command(change), partial(self._decided, change))

    def _decided(self, change: ChangeHolders, result: object) -> None:
        if self._is_ended:
            return
        self._leader.holders_changed(change)
        error = result if isinstance(result, FlotillaError) else None
        for holder, admitted in self._waiting.pop(change.group, []):
            if error is None:
                # Its name may be in the next command.
                self.admit(change.group, holder, admitted)
            else:
                admitted(error)
        if error is None:
            self._changed(change.group)
        else:
            self._outside.later(_RETRY_MS, lambda: self._retry(change.group))

    def end(self, reason: FlotillaError) -> None:
        """The term is over."""
        self._is_ended = True
        waiting, self._waiting = self._waiting, {}
        for _, admitted in [one for each in waiting.values() for one in each]:
            admitted(reason)
