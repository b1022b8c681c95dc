"""Which repair replies a damaged replica acts on."""

from random import Random

import pytest

from flotilla.raft.messages import NOOP, Configuration, Entry, HardState, RepairReply
from flotilla.raft.node import RaftNode
from flotilla.raft.options import RaftOptions
from tests.scenarios.store import MemoryLog

FOUNDERS = Configuration(voters=(1, 2, 3))


@pytest.mark.parametrize(("term", "is_dropped"), [(2, True), (3, False)])
def test_an_old_reply_does_not_drop_an_entry_that_the_leader_has_sent_since(term: int, is_dropped: bool):
    stored = MemoryLog(FOUNDERS)
    stored.stored = [Entry(1, 1, NOOP, b""), Entry(2, term, NOOP, b"")]
    node = RaftNode(
        3,
        stored,
        random=Random(1),
        options=RaftOptions(),
        hard_state=HardState(term=3, vote=0, commit=1),
        configuration=FOUNDERS,
        configuration_entries=[],
        applied=0,
        damaged=[(2, 3)],
        is_state_lost=False,
    )
    node.step(RepairReply(1, 3, 3, 2, absent=True))
    assert node.log.last_index == (1 if is_dropped else 2)
    assert bool(node.damaged) is not is_dropped
