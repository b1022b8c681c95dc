"""Quotas at a node: who is charged, who waits, and what is refused."""

import pytest

from flotilla.broker.security import guard as guards
from flotilla.broker.security.gate import Gate
from flotilla.broker.security.guard import Session
from flotilla.broker.security.quotas import Quotas
from flotilla.metadata.values import Topic
from flotilla.types import operations as ops
from flotilla.types.access import ANYONE, MANAGE, NODE, PRODUCE, Grant, Principal
from flotilla.types.errors import InvalidArgumentError, QuotaExceededError
from flotilla.types.operations.quotas import Quota, check_quota, namespace_of
from tests.unit.broker.security.test_guard import ANNA, Node, asked

BEN = Principal("user", "ben")


class Clock:
    def __init__(self) -> None:
        self.ms = 0
        self.timers: list[tuple[int, object]] = []

    def __call__(self) -> int:
        return self.ms

    def later(self, delay_ms, action):
        self.timers.append((self.ms + delay_ms, action))
        return lambda: None

    def advance(self, ms: int) -> None:
        self.ms += ms
        due, self.timers = (
            [action for when_ms, action in self.timers if when_ms <= self.ms],
            [timer for timer in self.timers if timer[0] > self.ms],
        )
        for action in due:
            action()


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(guards, "steady_ms", clock)
    return clock


@pytest.fixture
def node(clock) -> Node:
    node = Node()
    for user in ("anna", "ben"):
        node.table.put_grant(Grant(user, PRODUCE))
    return node


def opened(node: Node, principal: Principal = ANNA) -> Session:
    session = node.session(principal)
    assert session.is_open
    return session


def produce(topic: str) -> ops.Produce:
    return ops.Produce(topic, 0, b"")


@pytest.mark.parametrize(
    ("topic", "namespace"),
    [("team-a.orders", "team-a"), ("team-a.eu.x", "team-a"), ("orders", ""), ("dlq.g.team-a.x", ""), (".x", "")],
)
def test_namespaces(topic, namespace):
    assert namespace_of(topic) == namespace


@pytest.mark.parametrize(
    "quota",
    [
        Quota("anna"),
        Quota("", "", 20_000),
        Quota("anna", "team-a", 20_000),
        Quota("anna", bytes_in_per_second=1),
        Quota("anna", requests_per_second=2**60),
        Quota("", "team-a", connections=5),
        Quota("", "team.a", partitions=5),
        Quota("", "dlq", partitions=5),
        Quota("a b", requests_per_second=1),
    ],
)
def test_quotas_that_mean_nothing_are_refused(quota):
    with pytest.raises(InvalidArgumentError):
        check_quota(quota)


def test_nobody_is_metered_without_quotas(node):
    session = opened(node)
    assert not session.is_metered
    session.received("orders", 10**9)
    assert session.wait_ms("orders") == 0


def test_all_sessions_of_a_user_share_its_rate_and_others_do_not(node, clock):
    node.table.put_quota(Quota("anna", requests_per_second=10))
    one, two, other = opened(node), opened(node), opened(node, BEN)
    assert (one.is_metered, other.is_metered) == (True, False)
    for _ in range(10):
        one.received("orders", 5)
    assert two.wait_ms("orders") == 0
    two.received("orders", 5)
    assert one.wait_ms("orders") == two.wait_ms("x") == 100
    assert other.wait_ms("orders") == 0
    [meter] = node.guard.quotas.meters()
    assert meter.waited_ms == 200


def test_everybody_in_a_namespace_shares_its_rate(node, clock):
    node.table.put_quota(Quota("", "team-a", bytes_in_per_second=20_000, bytes_out_per_second=20_000))
    anna, ben = opened(node), opened(node, BEN)
    anna.received("team-a.orders", 30_000)
    assert ben.wait_ms("team-a.mail") == 500
    assert ben.wait_ms("orders") == 0
    clock.ms = 500
    assert ben.wait_ms("team-a.mail") == 0
    ben.sent("team-a.mail", 40_000)
    assert anna.wait_ms("team-a.orders") == 1_000


def test_a_change_of_the_quota_counts_at_once_and_keeps_the_counters(node, clock):
    node.table.put_quota(Quota("anna", requests_per_second=1))
    session = opened(node)
    session.received("orders", 0)
    session.received("orders", 0)
    assert session.wait_ms("orders") == 1_000
    node.table.put_quota(Quota("anna", requests_per_second=1_000))
    assert session.is_open
    assert session.wait_ms("orders") == 0
    [meter] = node.guard.quotas.meters()
    assert meter.waited_ms == 1_000
    node.table.remove_quota("anna", "")
    assert session.is_open
    assert not session.is_metered


def test_connections_are_counted_before_there_is_a_quota_and_after(node):
    first, second = opened(node), opened(node)
    holder = first.enter()
    node.table.put_quota(Quota("anna", connections=1))
    with pytest.raises(QuotaExceededError):
        second.enter()
    opened(node, BEN).enter()
    first.leave(holder)
    second.enter()
    assert [meter.refused for meter in node.guard.quotas.meters()] == [1]


def test_a_full_namespace_stores_nothing_more(node):
    node.table.put_quota(Quota("", "team-a", stored_bytes=1_000))
    session = opened(node)
    assert asked(node, session, produce("team-a.orders")) == ops.Done()
    [meter] = node.guard.quotas.meters()
    meter.stored_bytes = 1_000
    assert isinstance(asked(node, session, produce("team-a.orders")), QuotaExceededError)
    with pytest.raises(QuotaExceededError):
        session.checked(produce("team-a.orders"))
    assert asked(node, session, produce("orders")) == ops.Done()
    meter.stored_bytes = 999
    assert asked(node, session, produce("team-a.orders")) == ops.Done()


def test_a_user_whose_topics_are_full_stores_nothing_more_in_them(node):
    """Whoever produces to them; and the user still produces to topics of others."""
    for name, owner in (("annas", "anna"), ("bens", "ben"), ("old", "")):
        node.machine.state.put_topic(Topic(node.machine.state.next_topic_id, name, 1, (), (), 0, 1, owner=owner))
    ben = opened(node, BEN)
    assert not ben.is_metered
    node.table.put_quota(Quota("anna", stored_bytes=1_000))
    anna = opened(node)
    [meter] = node.guard.quotas.meters()
    meter.stored_bytes = 1_000
    for session in (anna, ben):
        assert isinstance(asked(node, session, produce("annas")), QuotaExceededError)
        assert asked(node, session, produce("bens")) == ops.Done()
        assert asked(node, session, produce("old")) == ops.Done()
    assert meter.refused == 2
    node.table.put_quota(Quota("anna", connections=9))
    assert ben.is_open
    assert not ben.is_metered
    assert asked(node, ben, produce("annas")) == ops.Done()


def test_what_a_caller_creates_is_its_own_whatever_it_claims(node):
    for user in ("anna", ANYONE.name):
        node.table.put_grant(Grant(user, MANAGE))
    claims = (ops.CreateTopic("x", owner="ben"), ops.GetMetadata(["x"], create=True, owner="ben"))
    callers = [opened(node, principal) for principal in (ANNA, ANYONE, Principal(NODE, "1"))]
    owners = [session.checked(claim).owner for session in callers for claim in claims]
    assert owners == ["anna", "anna", "", "", "ben", "ben"]
    asked(node, callers[0], claims[0])
    assert node.service.handled[-1].owner == "anna"


def test_an_entrance_pauses_until_nothing_is_owed(node, clock):
    node.table.put_quota(Quota("anna", requests_per_second=10))
    gate = Gate(node.service, node.machine, clock.later, lambda: 0)
    gate.guard = node.guard
    entrance = gate.entrance(None, ANNA, True)
    resumed: list[int] = []

    def resume() -> None:
        resumed.append(clock.ms)

    assert entrance.is_open
    for _ in range(10):
        assert not entrance.received(produce("orders"), 1, resume)
    assert entrance.received(produce("orders"), 1, resume)
    # Another connection of the same user uses what comes meanwhile.
    opened(node).received("orders", 1)
    clock.advance(100)
    assert resumed == []
    clock.advance(100)
    assert resumed == [200]


def test_meters_end_with_their_quotas():
    quotas = Quotas(lambda: 0)
    quotas.set({"anna": Quota("anna", connections=1)}, {})
    quotas.enter("anna")
    quotas.set({}, {})
    assert list(quotas.meters()) == []
    quotas.leave("anna")
    assert quotas._connections == {}
