"""The bytes of a snapshot never change: data directories of earlier versions hold them, and replicas compare them."""

from pathlib import Path

import pytest

from flotilla.metadata.applications import APPLICATION_REMEMBERED_MS
from flotilla.metadata.commands import (
    AlterGroup,
    CommitTogether,
    ConfirmTransaction,
    CreateOwnedTopic,
    DecideTransaction,
    DeleteTopic,
    LabelNode,
    RemoveBroker,
    SetBrokerState,
    SetClusterVersion,
)
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.move_commands import ConfirmLost, PlanMoves, SetIncarnation
from flotilla.metadata.scheduling.commands import PauseSchedule, PutSchedule, RemoveSchedule, RunSchedule
from flotilla.metadata.security.commands import (
    PutAdministrator,
    PutGrant,
    PutQuota,
    PutRole,
    PutSecret,
    PutUser,
    RemoveGrant,
    RemoveQuota,
    RemoveRole,
    RemoveUser,
)
from flotilla.metadata.security.join_tokens import PutJoinToken, UseJoinToken
from flotilla.metadata.snapshot import FIRST_LAYOUT, VERSION
from flotilla.metadata.stream_commands import (
    ForgetStreamGroup,
    JoinStreamGroup,
    ReleasePartitions,
    RemoveStreamMembers,
)
from flotilla.metadata.values import Labels
from flotilla.types.access import Grant, Verifier
from flotilla.types.errors import CorruptionError, FlotillaError
from flotilla.types.operations.quotas import Quota
from flotilla.types.operations.stream import ROUND_ROBIN
from tests.unit.metadata.entries import Log, cluster, register
from tests.unit.metadata.plans import plan

#: That of a cluster of the first version; later ones write their version behind the same bytes.
RECORDED = Path(__file__).with_name("recorded_snapshot.hex")


def full_log() -> Log:
    """Every table has rows, and every optional field is both there and not."""
    log = cluster(5)
    for node in range(1, 6):
        accept(log, SetIncarnation(node, 1000 + node, False, 60))
    first = log.create("orders", 2, 3, max_deliveries=9)
    second = log.create("emails", 3, 2)
    gone = log.create("gone", 1, 2)
    accept(log, AlterGroup("orders", "workers", (("visibility_ms", 5_000),), (), 110))
    accept(log, DeleteTopic("gone", gone.topic_id, 111))
    accept(log, register(6))
    accept(log, RemoveBroker(6, 113))
    log.move(second.partitions[0].group, (4, 5))
    accept(log, SetBrokerState(5, 2, 113))
    accept(log, PlanMoves(((first.partitions[0].group, (3, 4, 5)),), 120))
    accept(log, PlanMoves(((first.partitions[0].group, (2, 4, 1)),), 121))
    accept(log, SetIncarnation(2, 2002, True, 130))
    lost = first.partitions[1].group
    if 2 in first.partitions[1].replicas:
        accept(log, ConfirmLost(lost, 2, 2002, 131))
    accept(log, DecideTransaction("tx-0", "idle", 1, (), True, 0, "", 139))
    accept(log, DecideTransaction("tx-1", "", 0, (16, 17), True, 120, "", 140))
    accept(log, DecideTransaction("tx-2", "app", 300, (16,), False, 0, "", 141))
    later_ms = 139 + APPLICATION_REMEMBERED_MS
    accept(log, CommitTogether("job-1", "app", 301, (("tx-3", (17, 18)), ("tx-4", ())), later_ms, "anna", later_ms))
    accept(log, DecideTransaction("tx-5", "app", 7, (16,), True, later_ms, "anna", later_ms + 1))
    accept(log, ConfirmTransaction((("tx-1", 16),), 144))
    for member in ("ann", "bob", "cid"):
        accept(log, JoinStreamGroup(first.topic_id, "readers", member, "client", "", 0, 150))
    accept(log, JoinStreamGroup(second.topic_id, "audit", "dan", "", ROUND_ROBIN, 9_000, 151))
    accept(log, ReleasePartitions(first.topic_id, "readers", "ann", 2, (1,), 152))
    accept(log, JoinStreamGroup(second.topic_id, "audit", "eve", "", "", 0, 153))
    accept(log, JoinStreamGroup(second.topic_id, "brief", "fay", "", "", 0, 154))
    accept(log, RemoveStreamMembers(second.topic_id, "brief", ("fay",), True, 155))
    accept(log, ForgetStreamGroup(second.topic_id, "brief", False, 156))
    accept(log, PutSchedule("nightly", 0, plan(topic="orders", headers=(("h", b"v"),), key=b"k"), 1_000, 160))
    accept(log, PutSchedule("beat", 0, plan(topic="orders", every_ms=5_000, start_ms=7), 1_100, 161))
    accept(log, PutSchedule("gone", 0, plan(topic="orders"), 1_200, 162))
    accept(log, RunSchedule(1, 1, 1_000, True, 2_000, "schedule.1.1.1.1", 16, later_ms, 1_001))
    accept(log, PauseSchedule(2, True, 0, 1_002))
    accept(log, RemoveSchedule(3, 1_003))
    verifier = Verifier(b"salt" * 4, 4_096, b"s" * 32, b"k" * 32)
    accept(log, PutAdministrator("admin", verifier, 1_010))
    accept(log, PutUser("anna", verifier, True, 1_011))
    accept(log, PutUser("anna", verifier._replace(iterations=5_000), False, 1_012))
    accept(log, PutUser("gone", verifier, True, 1_013))
    accept(log, RemoveUser("gone", 1_014))
    accept(log, PutGrant(Grant("anna", "consume", "orders", "b*"), 1_015))
    accept(log, PutGrant(Grant("ben", "produce", "orders"), 1_016))
    accept(log, RemoveGrant(Grant("ben", "produce", "orders"), 1_017))
    accept(log, PutGrant(Grant("cert.user", "manage", "a*"), 1_018))
    accept(log, PutSecret(b"x" * 32, 1_019))
    accept(log, PutJoinToken(b"t" * 32, 9_000, 1_020))
    accept(log, PutJoinToken(b"u" * 32, 9_001, 1_021))
    accept(log, UseJoinToken(b"u" * 32, 4, 1_004, 1_022))
    accept(log, PutGrant(Grant("role:readers", "consume"), 1_018))
    accept(log, PutRole("ben", "readers", 1_019))
    accept(log, PutRole("anna", "readers", 1_019))
    accept(log, PutRole("anna", "gone", 1_019))
    accept(log, RemoveRole("anna", "gone", 1_019))
    accept(log, PutQuota(Quota("anna", "", 20_000, 30_000, 5, 6), 1_020))
    accept(log, PutQuota(Quota("", "team-a", partitions=7, stored_bytes=1 << 40), 1_021))
    accept(log, PutQuota(Quota("gone", requests_per_second=1), 1_022))
    accept(log, RemoveQuota("gone", "", 1_023))
    return log


def accept(log: Log, command: object) -> None:
    assert not isinstance(log.command(command), FlotillaError), command  # type: ignore[arg-type]


def test_the_example_fills_every_table():
    state = full_log().machine.state
    places = [partition for topic in state.topics.values() for partition in topic.partitions]
    assert any(place.move is not None and place.move.guests for place in places)
    assert any(place.move is None for place in places)
    assert any(place.lost for place in places)
    assert any(place.latecomers for place in places)
    assert state.tombstones
    assert state.removed_nodes
    assert state.transactions.awaited
    repeated = state.transactions.get("tx-5")
    assert repeated is not None
    assert repeated.is_repeated
    assert len(state.transactions.applications) == 1
    assert state.transactions.applications.idle_count == 1
    assert any(share.owner != share.target for group in state.streams.all_groups() for share in group.shares)
    assert state.streams.forgotten_generation
    assert any(each.is_paused for each in state.schedules.schedules.values())
    assert any(each.skipped_ms for each in state.schedules.schedules.values())
    assert state.security.users
    assert state.security.grants
    assert state.security.secret
    assert len(state.join_tokens.tokens) == 2
    assert state.security.quotas.all()
    assert state.security.roles


def test_the_bytes_are_recorded():
    log = full_log()
    recorded = bytes.fromhex(RECORDED.read_text())
    assert log.machine.snapshot() == recorded
    restored = MetadataMachine()
    restored.restore(recorded)
    assert restored.snapshot() == recorded


def test_the_version_of_the_cluster_decides_what_is_written():
    log = full_log()
    earlier = log.machine.snapshot()
    assert earlier[0] == FIRST_LAYOUT
    nodes = tuple(sorted(log.machine.state.brokers))
    accept(log, SetClusterVersion(2, nodes, 2_000))
    later = log.machine.snapshot()
    # The index of the applied entry has two bytes.
    assert (later[:1], later[3:]) == (bytes([FIRST_LAYOUT + 1]), earlier[3:] + b"\x02")
    restored = MetadataMachine()
    restored.restore(later)
    assert (restored.state.cluster_version, restored.snapshot()) == (2, later)
    accept(log, SetClusterVersion(3, nodes, 2_001))
    accept(log, CreateOwnedTopic("owned", 1, 1, (), "anna", 2_002))
    owned = log.machine.snapshot()
    assert owned[0] == FIRST_LAYOUT + 2
    restored.restore(owned)
    assert (restored.state.cluster_version, restored.snapshot()) == (3, owned)
    assert [topic.owner for topic in restored.state.topics.values()] == ["", "", "anna"]
    accept(log, SetClusterVersion(4, nodes, 2_003))
    accept(log, LabelNode(nodes[0], "m", "zz", 2_004))
    later = log.machine.snapshot()
    assert (later[0], later[3:]) == (VERSION, owned[3:-1] + bytes((4, 1, nodes[0], 1)) + b"m" + bytes((2,)) + b"zz")
    restored.restore(later)
    assert (restored.state.labels, restored.snapshot()) == ({nodes[0]: Labels("m", "zz")}, later)
    with pytest.raises(CorruptionError, match=f"version is {VERSION + 1}, and this program reads 10 to {VERSION}"):
        restored.restore(bytes([VERSION + 1]) + later[1:])


def test_bytes_that_were_changed_or_cut_short_are_read_or_refused():
    recorded = bytes.fromhex(RECORDED.read_text())
    assert recorded[0] == FIRST_LAYOUT
    for at in range(1, len(recorded)):
        with pytest.raises(CorruptionError):
            MetadataMachine().restore(recorded[:at])
        for value in (0x00, 0x80, 0xFF):
            try:
                MetadataMachine().restore(recorded[:at] + bytes((value,)) + recorded[at + 1 :])
            except CorruptionError:
                pass
