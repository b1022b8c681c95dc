"""Deliberate bugs in how consensus copes with disks: damage, forgetting, and reads that fail."""

from collections.abc import Callable
from typing import Any

from flotilla.raft import follower, log
from flotilla.raft.messages import VoteRequest
from flotilla.raft.node import RaftNode
from flotilla.raft.progress import Progress
from flotilla.raft.repair import repair
from flotilla.raft.state import RaftState
from flotilla.storage import journal_scan
from flotilla.storage.block import TWIN
from flotilla.storage.journal import Journal


class _UnraisedError(Exception):
    """Stands for an error that is not handled."""


def _count_forgotten(original: Any) -> Any:
    return lambda self, last_index: None


def commit_unconfirmed(original: Any) -> Any:
    def commit(node: RaftState, leader: int, index: int) -> None:
        node.log.commit_to(min(index, node.log.last_index))

    return commit


def _raise_read_errors(original: Any) -> Any:
    return _UnraisedError


def _withhold_votes(original: Any) -> Any:
    def step(self: RaftNode, message: Any) -> None:
        if not self.damaged or not isinstance(message, VoteRequest):
            original(self, message)

    return step


def _take_damage_for_torn(original: Any) -> Any:
    return lambda image, salt: False


def _step_down_unnoticed(original: Any) -> Any:
    return lambda node: None


def _keep_conflict(original: Any) -> Any:
    return lambda node, meta: None


def _doubt_the_leader(original: Any) -> Any:
    return lambda node, reply: False


def _doubt_its_entries(original: Any) -> Any:
    return lambda node, entries, *, authoritative: original(node, entries, authoritative=False)


def _ask_once(original: Any) -> Any:
    return lambda node: None


def _one_copy(original: Any) -> Any:
    return lambda *file: (image for image in original(*file) if image.copy != TWIN)


def _ask_for_room(original: Any) -> Any:
    return lambda self, number: self._create(number)


def _misjudge_room(original: Any) -> Any:
    def start(self: Journal, **places: Any) -> None:
        original(self, **places)
        if self.is_reserve and self._position > 0:
            self._limit_bytes = self._options.journal_bytes

    return start


_ROT = ("rot", "isolate", "crash", "blackout", "snapshot")
_TAIL = ("rot", "isolate", "snapshot")
_FULL = ("disk-full", "crash", "kill", "blackout")
_FORGET = ("put-back", "isolate", "crash", "transfer")

#: Name, mistake, faults that bring it about, replacements.
ROWS: tuple[tuple[str, str, tuple[str, ...], tuple[tuple[Any, Any, Callable[[Any], Any]], ...]], ...] = (
    (
        "count-forgotten",
        "a leader goes on counting what a replica has forgotten",
        _FORGET,
        ((Progress, "forgotten", _count_forgotten),),
    ),
    (
        "commit-unconfirmed",
        "a follower commits by an acknowledgement that it may have forgotten",
        ("put-back", "isolate", "transfer"),
        ((follower, "_commit_agreed", commit_unconfirmed),),
    ),
    (
        "read-error-ends",
        "a failed read of the log ends the node",
        ("unreadable", "isolate", "crash"),
        ((log, "StorageFailedError", _raise_read_errors),),
    ),
    (
        "damaged-no-vote",
        "a damaged replica gives no vote",
        ("rot", "crash", "blackout", "snapshot"),
        ((RaftNode, "step", _withhold_votes),),
    ),
    (
        "step-down-unnoticed",
        "a leader that finds damage steps down, and its followers do not notice",
        _ROT,
        ((repair, "leader_asks", _step_down_unnoticed),),
    ),
    (
        "keep-conflict",
        "a damaged tail stays that conflicts with the snapshot which would repair it",
        _TAIL,
        ((repair, "_drop_conflict", _keep_conflict),),
    ),
    (
        "keep-absent",
        "a damaged entry stays of which the leader says that it never committed",
        _TAIL,
        # The leader's next entry at that index says the same.
        ((repair, "_is_news", _doubt_the_leader), (repair, "_repair", _doubt_its_entries)),
    ),
    (
        "ask-once",
        "a replica asks once for its damaged entries",
        _ROT,
        ((repair, "tick", _ask_once),),
    ),
    (
        "drop-doubtful",
        "one bad sector in the last block is taken for a torn write",
        ("rot", "kill"),
        ((journal_scan, "_may_be_one_sector", _take_damage_for_torn),),
    ),
    (
        "one-directory",
        "the second copy of what a block lists is never read",
        ("rot", "kill"),
        ((journal_scan, "_directories", _one_copy),),
    ),
    (
        "ask-for-room",
        "a start on a full disk asks for a new file, and leaves the reserve alone",
        _FULL,
        ((Journal, "_create_or_take_reserve", _ask_for_room),),
    ),
    (
        "misjudge-room",
        "a start on a full disk takes the rest of the reserve for that of a journal file",
        _FULL,
        ((Journal, "start", _misjudge_room),),
    ),
)
