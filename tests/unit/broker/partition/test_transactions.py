"""Transactions at whole brokers: visible everywhere or nowhere, once, at any leader and with any repetition."""

from unittest.mock import ANY

import pytest

from flotilla.broker.partition.transactions import Decisions
from flotilla.broker.queue.polls import LOST_MS
from flotilla.codec.batch.view import BatchView
from flotilla.metadata.transactions import COMMITTED, Transaction, TransactionTable
from flotilla.partition.leader.transactions import TRANSACTION_TIMEOUT_MS
from flotilla.types.errors import UnavailableError
from flotilla.types.operations import LATEST, DeleteTopic, Fetch, Fetched, ListOffsets, OffsetFound, Produce
from flotilla.types.operations.transactions import (
    AbortTransaction,
    CommitTransaction,
    Stage,
    Staged,
    StagedBatch,
    TransactionDecided,
    TransactionOutcome,
    TransactionShown,
)
from tests.unit.broker.fleet import Answer, Fleet, Node, batch, single_node, three
from tests.unit.broker.queue_driver import poll, polled, values

ORDERS = "orders"
BILLING = "billing"
BOTH = [(ORDERS, 0), (BILLING, 0)]


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(ORDERS)
    node.fleet.create(BILLING)
    return node


def stage(node: Node, topic: str, *records: bytes, name: str = "t", sequence: int = 0) -> Answer:
    return node.call(Stage(topic, 0, name, batch(*records, producer=7, sequence=sequence)))


def seen(node: Node, topic: str) -> list[bytes]:
    answer = node.call(Fetch(topic, 0, 0, max_bytes=1 << 24)).result
    assert isinstance(answer, Fetched), answer
    found = [record.payload for data in answer.batches for record in BatchView(data).records()]
    assert len(found) == answer.next_offset
    return found


def transactions(node: Node, topic: str = ORDERS):
    return node.partition(topic).machine.transactions


def waiting(fleet: Fleet, name: str = "t") -> tuple[int, ...]:
    return fleet.controller().catalog.transactions().get(name).waiting


def test_a_commit_shows_everything_everywhere(node: Node) -> None:
    node.call(Produce(ORDERS, 0, batch(b"before")))
    assert stage(node, ORDERS, b"a", b"b").result == Staged(2, ANY, ANY)
    assert stage(node, ORDERS, b"c", sequence=2).result == Staged(3, ANY, ANY)
    assert stage(node, BILLING, b"d").result == Staged(1, ANY, ANY)
    node.call(Produce(ORDERS, 0, batch(b"between")))
    assert (seen(node, ORDERS), seen(node, BILLING)) == ([b"before", b"between"], [])
    assert node.call(CommitTransaction("t", BOTH, begun_ms=2)).result == TransactionDecided()
    assert seen(node, ORDERS) == [b"before", b"between", b"a", b"b", b"c"]
    assert seen(node, BILLING) == [b"d"]
    outcome = node.call(TransactionOutcome(ORDERS, 0, "t")).result
    assert outcome == TransactionShown(True, [StagedBatch(7, 0, 2), StagedBatch(7, 2, 4)])
    assert waiting(node.fleet) == ()
    assert not transactions(node).open


def test_a_commit_names_the_topics_in_which_its_parts_are_staged(node: Node) -> None:
    ids = [stage(node, topic, b"a").result.topic_id for topic in (ORDERS, BILLING)]
    shown = node.call(TransactionOutcome(BILLING, 0, "t")).result
    assert (len(set(ids)), shown.topic_id) == (2, ids[1])
    commit = CommitTransaction("t", BOTH, begun_ms=2, topic_ids=ids)
    node.call(DeleteTopic(BILLING))
    node.fleet.create(BILLING)
    assert node.call(commit).code == "TOPIC_REPLACED"
    assert node.call(CommitTransaction("t", BOTH, begun_ms=2, topic_ids=ids[:1])).code == "INVALID_ARGUMENT"
    together = CommitTransaction("all", BOTH, members=[("t", [0, 1])], begun_ms=2, topic_ids=ids)
    assert node.call(together).code == "TOPIC_REPLACED"
    assert node.catalog.transactions().get("t") is None
    assert (seen(node, ORDERS), seen(node, BILLING)) == ([], [])


def test_a_commit_that_is_repeated_gets_its_answer_whatever_became_of_the_topics(node: Node) -> None:
    ids = [stage(node, topic, b"a").result.topic_id for topic in (ORDERS, BILLING)]
    commit = CommitTransaction("t", BOTH, begun_ms=2, topic_ids=ids)
    assert node.call(commit).result == TransactionDecided()
    node.call(DeleteTopic(BILLING))
    assert node.call(commit).result == TransactionDecided()
    node.fleet.create(BILLING)
    assert node.call(commit).result == TransactionDecided()
    assert (seen(node, ORDERS), seen(node, BILLING)) == ([b"a"], [])


def test_commits_together_that_are_repeated_get_their_answer_whatever_became_of_the_topics(node: Node) -> None:
    stage(node, ORDERS, b"a")
    together = CommitTransaction("all", [(ORDERS, 0)], members=[("t", [0])], begun_ms=2)
    assert node.call(together).result == TransactionDecided()
    node.call(DeleteTopic(ORDERS))
    assert node.call(together).result == TransactionDecided()


def test_an_abort_shows_nothing_anywhere(node: Node) -> None:
    stage(node, ORDERS, b"a")
    stage(node, BILLING, b"b")
    assert node.call(AbortTransaction("t", BOTH)).result == TransactionDecided()
    assert (seen(node, ORDERS), seen(node, BILLING)) == ([], [])
    assert node.call(TransactionOutcome(ORDERS, 0, "t")).result == TransactionShown(False)
    assert waiting(node.fleet) == ()
    assert node.call(CommitTransaction("t", BOTH, begun_ms=2)).code == "TRANSACTION_ENDED"
    assert stage(node, ORDERS, b"late", sequence=1).code == "TRANSACTION_ENDED"


def test_every_request_can_be_repeated(node: Node) -> None:
    for _ in range(3):
        assert stage(node, ORDERS, b"a").result == Staged(1, ANY, ANY)
    for _ in range(3):
        assert node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2)).result == TransactionDecided()
    for _ in range(2):
        outcome = node.call(TransactionOutcome(ORDERS, 0, "t")).result
        assert outcome == TransactionShown(True, [StagedBatch(7, 0, 0)])
    assert seen(node, ORDERS) == [b"a"]
    assert node.call(AbortTransaction("t", [(ORDERS, 0)])).code == "TRANSACTION_ENDED"


def test_a_version_is_committed_once(node: Node) -> None:
    for attempt, is_repeated in (("first", False), ("second", True)):
        stage(node, ORDERS, b"a", name=attempt)
        decided = node.call(CommitTransaction(attempt, [(ORDERS, 0)], "job", 42, begun_ms=2)).result
        assert decided == TransactionDecided(is_repeated)
    assert seen(node, ORDERS) == [b"a"]
    assert node.call(TransactionOutcome(ORDERS, 0, "second")).result == TransactionShown(False)


def test_queue_groups_get_committed_transactions(node: Node) -> None:
    asked = node.ask(poll(wait_ms=10_000))
    stage(node, ORDERS, b"a")
    stage(node, ORDERS, b"b", sequence=1)
    node.fleet.advance(1_000)
    assert asked.is_waiting
    node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2))
    assert values(asked.result.deliveries) == [b"a", b"b"]  # type: ignore[union-attr]
    assert polled(node) == []


def test_an_outcome_is_waited_for(node: Node) -> None:
    stage(node, ORDERS, b"a")
    begun = node.call(TransactionOutcome(ORDERS, 0, "t")).result
    first_staged_ms = node.partition(ORDERS).machine.transactions.open["t"].first_staged_ms
    assert begun == TransactionShown(False, begun_ms=first_staged_ms, topic_id=node.catalog.topic(ORDERS).topic_id)
    assert node.call(TransactionOutcome(ORDERS, 0, "other", 1_000)).code == "NOT_FOUND"
    late = node.ask(TransactionOutcome(ORDERS, 0, "t", 1_000))
    given_up = node.ask(TransactionOutcome(ORDERS, 0, "t", 5_000))
    patient = node.ask(TransactionOutcome(ORDERS, 0, "t", 60_000))
    node.fleet.advance(2_000)
    assert late.code == "UNAVAILABLE"
    assert given_up.cancel is not None
    given_up.cancel()
    assert patient.is_waiting
    node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2))
    assert patient.result == TransactionShown(True, [StagedBatch(7, 0, 0)])
    node.fleet.advance(60_000)
    assert given_up.is_waiting
    assert len(patient.results) == 1


def test_a_partition_that_the_commit_does_not_name_has_no_part_in_it(node: Node) -> None:
    stage(node, ORDERS, b"a")
    stage(node, BILLING, b"b")
    node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2))
    assert (seen(node, ORDERS), seen(node, BILLING)) == ([b"a"], [])
    assert not transactions(node, BILLING).open


def test_a_partition_without_a_stage_is_not_waited_for(node: Node) -> None:
    node.call(CommitTransaction("t", BOTH, begun_ms=2))
    node.fleet.wait(lambda: waiting(node.fleet) == ())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (Stage(ORDERS, 0, "t", batch(b"a")), "INVALID_ARGUMENT"),
        (Stage(ORDERS, 0, "", batch(b"a", producer=1)), "INVALID_ARGUMENT"),
        (Stage(ORDERS, 0, "t", b"nonsense"), "INVALID_ARGUMENT"),
        (Stage("nowhere", 0, "t", batch(b"a", producer=1)), "NOT_FOUND"),
        (CommitTransaction("", BOTH, begun_ms=2), "INVALID_ARGUMENT"),
        (CommitTransaction("t", [("nowhere", 0)], begun_ms=2), "NOT_FOUND"),
        (CommitTransaction("t", [(ORDERS, 9)], begun_ms=2), "NOT_FOUND"),
        (CommitTransaction("t", [(ORDERS, 0)], version=4, begun_ms=2), "INVALID_ARGUMENT"),
        (CommitTransaction("t", [(ORDERS, 0)], "job", 2**64 - 1, begun_ms=2), "TransactionDecided"),
        (CommitTransaction("t t", [(ORDERS, 0)], begun_ms=2), "INVALID_ARGUMENT"),
    ],
)
def test_bad_requests_are_refused(node: Node, request_, code: str) -> None:
    assert node.call(request_).code == code
    assert not transactions(node).open


def test_an_abandoned_stage_is_aborted_after_its_time(node: Node) -> None:
    stage(node, ORDERS, b"a")
    stage(node, BILLING, b"b", name="other")
    node.fleet.advance(TRANSACTION_TIMEOUT_MS - 1_000)
    assert transactions(node).open
    node.fleet.advance(10_000)
    assert not transactions(node).open
    assert node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2)).code == "TRANSACTION_ENDED"
    assert seen(node, ORDERS) == []


def test_the_time_limit_is_that_of_the_topic_or_of_the_transaction() -> None:
    node = single_node()
    node.fleet.create(ORDERS, transaction_timeout_ms="5s")
    node.call(Stage(ORDERS, 0, "short", batch(b"a", producer=7)))
    node.call(Stage(ORDERS, 0, "long", batch(b"b", producer=8), timeout_ms=30_000))
    assert node.call(Stage(ORDERS, 0, "never", batch(b"b", producer=9), timeout_ms=1)).code == "INVALID_ARGUMENT"
    node.fleet.advance(10_000)
    assert list(transactions(node).open) == ["long"]
    node.fleet.advance(30_000)
    assert not transactions(node).open


def test_transactions_of_a_lost_member_are_aborted_at_once(node: Node) -> None:
    """So a crash loop of workers leaves no stages behind that fill the partition."""
    for number in range(50):
        member = "alive" if number == 7 else f"crashed-{number}"
        staged = Stage(ORDERS, 0, f"t{number}", batch(b"a", producer=7), member=member)
        assert node.call(staged).result == Staged(1, ANY, ANY)
    node.call(Stage(ORDERS, 0, "of-many-processes", batch(b"a", producer=7)))
    node.broker.lost([f"crashed-{number}" for number in range(50)])
    node.fleet.advance(LOST_MS + 1_000)
    assert list(transactions(node).open) == ["t7", "of-many-processes"]
    assert node.call(CommitTransaction("t0", [(ORDERS, 0)], begun_ms=2)).code == "TRANSACTION_ENDED"
    assert node.call(CommitTransaction("t7", [(ORDERS, 0)], begun_ms=2)).result == TransactionDecided()


def test_a_member_that_reconnects_keeps_its_transactions(node: Node) -> None:
    node.call(Stage(ORDERS, 0, "t", batch(b"a", producer=7), member="me"))
    node.broker.lost(["me"])
    node.call(Stage(ORDERS, 0, "t", batch(b"b", producer=7, sequence=1), member="me"))
    node.fleet.advance(LOST_MS + 1_000)
    assert node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2)).result == TransactionDecided()
    assert seen(node, ORDERS) == [b"a", b"b"]


def test_retention_keeps_staged_batches() -> None:
    node = single_node()
    node.fleet.create(ORDERS, retention_messages="2", transaction_timeout_ms="15m")
    stage(node, ORDERS, b"a")
    for _ in range(30):
        node.call(Produce(ORDERS, 0, batch(b"x" * 4_000)))
    node.fleet.advance(130_000)
    host = node.partition(ORDERS)
    staged = transactions(node).open["t"].parts[0].entry_index
    assert host.machine.log_start > 0
    assert host.replica.log.first_index() <= staged
    node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2))
    assert node.call(TransactionOutcome(ORDERS, 0, "t", 1_000)).result == TransactionShown(
        True, [StagedBatch(7, 0, 30)]
    )
    node.fleet.advance(130_000)
    assert host.replica.log.first_index() > staged


def test_batches_that_the_log_refuses_follow_before_anything_else(node: Node) -> None:
    """The last leader died in the middle, or the log was full: no part is visible, and no batch comes between."""
    node.call(Produce(ORDERS, 0, batch(b"before")))
    for sequence in range(3):
        stage(node, ORDERS, b"%d" % sequence, sequence=sequence)
    real, taken = node.propose, []

    def propose(group, data, reply, **_):
        if bytes(data[30:32]) == b"FL" and len(taken) == 2:
            return False
        if bytes(data[30:32]) == b"FL":
            taken.append(data)
        return real(group, data, reply)

    node.propose = propose  # type: ignore[method-assign]
    node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2))
    assert len(taken) == 2
    assert seen(node, ORDERS) == [b"before"]
    latest = node.call(ListOffsets(ORDERS, 0, LATEST)).result
    assert latest == OffsetFound(1)
    assert node.call(Produce(ORDERS, 0, batch(b"other"))).code == "OVERLOADED"
    node.propose = real  # type: ignore[method-assign]
    node.fleet.advance(100)
    assert seen(node, ORDERS) == [b"before", b"0", b"1", b"2"]
    assert node.call(Produce(ORDERS, 0, batch(b"other"))).code == "Produced"


@pytest.mark.parametrize("taken_max", [0, 1, 2, 3])
@pytest.mark.parametrize("is_known", [True, False])
def test_the_next_leader_finishes_the_decision(taken_max: int, is_known: bool) -> None:
    """Also one that has not heard of the decision, as long as something of the transaction is stored."""
    fleet = three()
    fleet.create(ORDERS)
    leader = fleet.leader(ORDERS)
    for sequence in range(3):
        stage(leader, ORDERS, b"%d" % sequence, sequence=sequence)
    real, taken, refused = leader.propose, [], []

    def propose(group, data, reply, **_):
        if bytes(data[30:32]) == b"FL":
            if len(taken) == taken_max:
                refused.append(data)
                return False
            taken.append(data)
        return real(group, data, reply)

    leader.propose = propose  # type: ignore[method-assign]
    assert fleet.controller().call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2)).result == TransactionDecided()
    fleet.wait(lambda: bool(refused) or len(taken) == 3)
    fleet.advance(500)
    others = [box for box in fleet.nodes.values() if box is not leader]
    assert {box.partition(ORDERS).machine.end_offset for box in others} == {taken_max}
    if taken_max > 0 and not is_known:
        for box in others:
            box.catalog.transactions = TransactionTable  # type: ignore[method-assign]
    fleet.kill(leader.node)
    heir = fleet.leader(ORDERS)
    fleet.wait(lambda: seen(heir, ORDERS) == [b"0", b"1", b"2"])
    outcome = heir.call(TransactionOutcome(ORDERS, 0, "t", 1_000)).result
    assert isinstance(outcome, TransactionShown)
    assert [shown.base_offset for shown in outcome.batches] == [0, 1, 2]
    for box in others:
        box.catalog.__dict__.pop("transactions", None)
    fleet.wait(lambda: waiting(fleet) == ())
    fleet.restart(leader.node)
    fleet.advance(5_000)
    hashes = {box.partition(ORDERS).machine.state_hash() for box in fleet.nodes.values()}
    assert len(hashes) == 1


def test_a_stage_waits_over_a_change_of_leaders() -> None:
    fleet = three()
    fleet.create(ORDERS)
    leader = fleet.leader(ORDERS)
    stage(leader, ORDERS, b"a")
    fleet.kill(leader.node)
    heir = fleet.leader(ORDERS)
    # A repetition finds what is there.
    assert stage(heir, ORDERS, b"a").result == Staged(1, ANY, ANY)
    fleet.controller().call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2))
    fleet.wait(lambda: seen(heir, ORDERS) == [b"a"])


def test_a_leader_that_may_have_a_successor_confirms_nothing_that_it_never_had() -> None:
    """The successor may have a staged batch of it, and would drop it as abandoned."""
    fleet = three()
    fleet.create(ORDERS)
    leader = fleet.leader(ORDERS)
    host = leader.partition(ORDERS)
    table = TransactionTable()
    table.put(Transaction("t", COMMITTED, "", 0, 1, (host.group,)), 1)
    forwarded: list[object] = []
    fleet.wait(lambda: host._transactions is not None)
    assert host._transactions is not None
    host._transactions._decisions = Decisions(lambda: table, forwarded.append, {})
    fleet.isolate(leader.node)
    host.confirm_transactions(["t"])
    asked = leader.call(TransactionOutcome(ORDERS, 0, "t", 1_000))
    assert (asked.is_waiting, forwarded) == (True, [])
    fleet.heal(leader.node)
    fleet.advance(10_000)
    assert asked.code in ("NOT_FOUND", "NOT_LEADER", "UNAVAILABLE")


def test_waiters_learn_that_leadership_has_ended(node: Node) -> None:
    stage(node, ORDERS, b"a")
    asked = node.ask(TransactionOutcome(ORDERS, 0, "t", 60_000))
    node.partition(ORDERS).close(UnavailableError("it moved away"))
    assert asked.code == "UNAVAILABLE"


def test_records_count_as_produced_when_they_are_seen(node: Node) -> None:
    stage(node, ORDERS, b"a", b"b")
    stage(node, ORDERS, b"c", sequence=2)
    stage(node, BILLING, b"d", name="aborted")
    assert node.membership.produced == {}
    node.call(CommitTransaction("t", [(ORDERS, 0)], begun_ms=2))
    node.call(AbortTransaction("aborted", [(BILLING, 0)]))
    assert node.membership.produced == {ORDERS: 3}
