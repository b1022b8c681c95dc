"""Every checker finds the breach it is there for, and lets pass what is permitted."""

import pytest

from flotilla.raft.messages import (
    DATA,
    Append,
    AppendReply,
    Configuration,
    Entry,
    HardState,
    HeartbeatReply,
    Message,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    VoteReply,
    VoteRequest,
)
from flotilla.sim.checkers.application import ApplicationChecker
from flotilla.sim.checkers.configuration import ConfigurationChecker
from flotilla.sim.checkers.disk_shadow import DurableLog, ReplicaShadow, Save
from flotilla.sim.checkers.durability import DurabilityChecker
from flotilla.sim.checkers.elections import ElectionChecker
from flotilla.sim.checkers.log import LogChecker
from flotilla.sim.checkers.violation import Violation

THREE = Configuration(voters=(1, 2, 3))
META = SnapshotMeta(10, 2, 10, 2, THREE, 100)


def entries(*terms: int, first: int = 1) -> list[Entry]:
    return [Entry(index, term, DATA, b"%d" % index) for index, term in enumerate(terms, first)]


def durability(term: int = 2, vote: int = 1, terms: tuple[int, ...] = (1, 2)) -> DurabilityChecker:
    """Nodes 1 to 3, each with this on disk."""
    checker = DurabilityChecker()
    for node in (1, 2, 3):
        shadow = checker.shadow[node] = ReplicaShadow()
        shadow.collected.append(Save(HardState(term, vote, 0), entries(*terms), 0, None))
        shadow.block_taken()
        shadow.block_durable()
    return checker


ALLOWED: list[Message] = [
    VoteRequest(1, 2, 2, 2, 2),
    VoteRequest(2, 1, 3, 2, 2, pre=True),
    VoteReply(2, 1, 2, granted=True),
    VoteReply(2, 3, 1, granted=True),
    VoteReply(2, 3, 9, granted=True, pre=True),
    VoteReply(2, 3, 2, granted=False),
    AppendReply(2, 1, 2, index=2, accepted=True),
    AppendReply(2, 1, 2, index=7, accepted=False),
    Append(1, 2, 2, 2, 2, 0),
    HeartbeatReply(2, 1, 2),
]

FORBIDDEN: list[Message] = [
    VoteRequest(1, 2, 3, 2, 2),
    VoteRequest(2, 1, 2, 2, 2),
    VoteReply(2, 3, 2, granted=True),
    VoteReply(2, 1, 3, granted=True),
    AppendReply(2, 1, 2, index=3, accepted=True),
    AppendReply(2, 1, 3, index=2, accepted=True),
    Append(1, 2, 3, 2, 2, 0),
    HeartbeatReply(2, 1, 3),
]


@pytest.mark.parametrize("message", ALLOWED, ids=str)
def test_may_leave(message: Message) -> None:
    durability().sent(message)


@pytest.mark.parametrize("message", FORBIDDEN, ids=str)
def test_must_not_leave_yet(message: Message) -> None:
    with pytest.raises(Violation, match="durable before send"):
        durability().sent(message)


def test_a_snapshot_is_on_disk_before_it_is_called_installed() -> None:
    checker = durability()
    checker.sent(SnapshotChunk(1, 2, 2, META, 0, b"x" * 50))
    checker.sent(SnapshotReply(2, 1, 2, index=10, offset=50))
    with pytest.raises(Violation, match="installed the snapshot"):
        checker.sent(SnapshotReply(2, 1, 2, index=10, offset=100))


def test_one_vote_per_term() -> None:
    checker = durability(term=5)
    checker.sent(VoteReply(2, 1, 4, granted=True))
    checker.sent(VoteReply(2, 1, 4, granted=True))
    with pytest.raises(Violation, match="one vote per term"):
        checker.sent(VoteReply(2, 3, 4, granted=True))


def test_commit_needs_a_durable_majority_of_each_half() -> None:
    checker = durability()
    checker.committed(2, 2, THREE)
    with pytest.raises(Violation, match="durable before commit"):
        checker.committed(3, 2, THREE)
    with pytest.raises(Violation, match="durable before commit"):
        checker.committed(2, 1, THREE)
    with pytest.raises(Violation, match="durable before commit"):
        checker.committed(2, 2, Configuration(voters=(1, 2, 3), outgoing=(3, 4, 5)))


def recovered(term: int, vote: int, *terms: int) -> DurableLog:
    log = DurableLog()
    log.apply(Save(HardState(term, vote, 0), entries(*terms), 0, None))
    return log


@pytest.mark.parametrize(
    ("state", "is_permitted"),
    [
        (recovered(2, 1, 1, 2), True),
        (recovered(3, 3, 1, 2, 2), True),
        # A block is whole or not there.
        (recovered(2, 1, 1, 2, 2), False),
        (recovered(3, 3, 1, 2), False),
        (recovered(2, 1, 1), False),
        (recovered(2, 1, 1, 1), False),
        (recovered(2, 0, 1, 2), False),
        (recovered(1, 1, 1, 2), False),
        (recovered(2, 1, 1, 2, 2, 2), False),
    ],
)
def test_a_crash_keeps_what_is_durable_and_the_block_in_flight_or_not(state: DurableLog, is_permitted: bool) -> None:
    checker = durability()
    shadow = checker.shadow[2]
    shadow.collected.append(Save(None, entries(2, first=3), 0, None))
    shadow.collected.append(Save(HardState(3, 3, 0), [], 0, None))
    shadow.block_taken()
    shadow.collected.append(Save(None, entries(3, first=4), 0, None))
    if is_permitted:
        checker.recovered(2, state)
        assert shadow.durable is state
    else:
        with pytest.raises(Violation, match="durable after crash"):
            checker.recovered(2, state)


def test_the_shadow_follows_truncation_and_snapshots() -> None:
    log = recovered(2, 1, 1, 1, 2, 2)
    log.apply(Save(None, [], 3, None))
    assert log.terms == [1, 1]
    log.apply(Save(None, entries(2, 2, first=2), 0, None))
    assert log.terms == [1, 2, 2]
    log.apply(Save(None, entries(3, first=11), 0, META))
    assert (log.base, log.terms, log.last_index) == (10, [3], 11)
    assert log.holds(4, 1)
    assert log.holds(11, 3)
    assert not log.holds(12, 3)


def test_one_leader_per_term() -> None:
    checker = ElectionChecker()
    checker.granted(2, 4, 1)
    checker.leads(1, 4, THREE)
    checker.leads(1, 4, THREE)
    checker.granted(2, 4, 3)
    with pytest.raises(Violation, match="one leader per term"):
        checker.leads(3, 4, THREE)


@pytest.mark.parametrize(
    ("voters", "configuration"),
    [
        ((), THREE),
        ((4,), Configuration(voters=(1, 2, 3), learners=(4,))),
        ((2,), Configuration(voters=(1, 2, 3), outgoing=(3, 4, 5))),
        ((2,), Configuration(voters=(1, 2, 3, 4, 5))),
    ],
)
def test_a_leader_needs_a_majority_of_voters(voters: tuple[int, ...], configuration: Configuration) -> None:
    checker = ElectionChecker()
    for voter in voters:
        checker.granted(voter, 4, 1)
    with pytest.raises(Violation, match="leader by majority"):
        checker.leads(1, 4, configuration)


def test_committed_entries_never_change() -> None:
    checker = LogChecker()
    assert checker.commits(1, 1, 1)
    assert checker.commits(1, 2, 1)
    assert not checker.commits(2, 2, 1)
    with pytest.raises(Violation, match="committed entries agree"):
        checker.commits(3, 2, 2)
    with pytest.raises(Violation, match="no replica committed 3"):
        checker.commits(3, 4, 2)
    with pytest.raises(Violation, match="terms rise"):
        checker.commits(3, 3, 0)


def test_a_name_has_one_content() -> None:
    checker = LogChecker()
    checker.stored(1, Entry(1, 1, DATA, b"a"))
    checker.stored(2, Entry(1, 1, DATA, memoryview(b"a")))
    checker.stored(2, Entry(1, 2, DATA, b"b"))
    with pytest.raises(Violation, match="one content"):
        checker.stored(3, Entry(1, 1, DATA, b"b"))


def test_a_leader_holds_what_is_committed() -> None:
    checker = LogChecker()
    checker.commits(1, 1, 1)
    checker.commit_term = 1
    checker.leads(2, 2, 1, 1)
    checker.leads(3, 1, 0, 0)
    with pytest.raises(Violation, match="leader is complete"):
        checker.leads(3, 2, 0, 0)
    with pytest.raises(Violation, match="leader is complete"):
        checker.leads(3, 2, 1, 2)


def applied() -> ApplicationChecker:
    checker = ApplicationChecker()
    checker.applied(1, index=2, position=0, command=7, digest=70, commit=2)
    checker.applied(1, index=3, position=1, command=8, digest=80, commit=9)
    return checker


@pytest.mark.parametrize(
    ("values", "promise"),
    [
        ({"index": 2, "position": 0, "command": 7, "digest": 70, "commit": 2}, ""),
        ({"index": 4, "position": 2, "command": 9, "digest": 90, "commit": 4}, ""),
        ({"index": 4, "position": 2, "command": 9, "digest": 90, "commit": 3}, "applied only when committed"),
        ({"index": 3, "position": 2, "command": 9, "digest": 90, "commit": 9}, "applied once, in order"),
        ({"index": 5, "position": 3, "command": 9, "digest": 90, "commit": 9}, "applied once, in order"),
        ({"index": 3, "position": 0, "command": 8, "digest": 80, "commit": 9}, "equal states"),
        ({"index": 3, "position": 1, "command": 8, "digest": 81, "commit": 9}, "equal states"),
    ],
)
def test_application(values: dict[str, int], promise: str) -> None:
    checker = applied()
    if not promise:
        checker.applied(2, **values)
        return
    with pytest.raises(Violation) as raised:
        checker.applied(2, **values)
    assert raised.value.promise == promise


def test_a_restored_state_is_one_that_a_replica_had() -> None:
    checker = applied()
    checker.restored(2, 0, 0)
    checker.restored(2, 2, 80)
    for length, digest in ((1, 80), (3, 80)):
        with pytest.raises(Violation, match="snapshot equals replay"):
            checker.restored(2, length, digest)


JOINT = Configuration(voters=(1, 2, 4), outgoing=(1, 2, 3))


@pytest.mark.parametrize(
    ("current", "following", "is_permitted"),
    [
        (THREE, Configuration(voters=(1, 2, 3, 4)), True),
        (THREE, Configuration(voters=(1, 2)), True),
        (THREE, Configuration(voters=(1, 2, 3), learners=(4, 5)), True),
        (THREE, JOINT, True),
        (JOINT, Configuration(voters=(1, 2, 4)), True),
        (THREE, Configuration(voters=(1, 2, 4)), False),
        (JOINT, Configuration(voters=(1, 2, 3)), False),
        (JOINT, Configuration(voters=(1, 4, 5), outgoing=(1, 2, 4)), False),
        (THREE, Configuration(voters=(1, 2, 4), outgoing=(1, 2)), False),
        (THREE, Configuration(voters=(1, 2, 3), learners=(3,)), False),
    ],
)
def test_steps_of_membership(current: Configuration, following: Configuration, is_permitted: bool) -> None:
    checker = ConfigurationChecker()
    if is_permitted:
        checker.proposed(1, 5, 4, current, following)
    else:
        with pytest.raises(Violation):
            checker.proposed(1, 5, 4, current, following)


def test_one_change_at_a_time() -> None:
    checker = ConfigurationChecker()
    checker.logged(1, 3)
    checker.logged(1, 5)
    checker.proposed(1, 5, 3, THREE, Configuration(voters=(1, 2)))
    with pytest.raises(Violation, match="one change at a time"):
        checker.proposed(1, 6, 4, THREE, Configuration(voters=(1, 2)))
    checker.cut(1, 5)
    checker.proposed(1, 6, 4, THREE, Configuration(voters=(1, 2)))
