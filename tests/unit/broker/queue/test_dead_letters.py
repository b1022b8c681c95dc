"""The way to the dead-letter topic: once, whatever fails on the way, and no further than that."""

from collections.abc import Callable

import pytest

from flotilla.broker.ports import Done
from flotilla.broker.queue.dead_letters import RETRY_MS_MAX
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.metadata.values import Topic
from flotilla.types.dead_letters import REDRIVE_GROUP, dead_letter_topic, redrive_group
from flotilla.types.errors import InvalidArgumentError, UnavailableError
from flotilla.types.limits import LOSS_COUNT_MAX
from flotilla.types.operations import CreateTopic, Fetch, Fetched, Produce
from flotilla.types.operations.queue import (
    FAIL,
    REJECT,
    AlterGroup,
    DeleteGroup,
    Delivery,
    ExplainMessage,
    Explanation,
    Poll,
    Polled,
    ResetGroup,
    Settled,
    Start,
)
from flotilla.types.records import CONTENT_JSON, Record
from flotilla.types.topics import NAME_LENGTH_MAX, check_topic_name
from tests.unit.broker.fleet import Fleet, Node, single_node, three
from tests.unit.broker.queue_driver import GROUP, TOPIC, describe, poll, polled, settle, store

DEAD = dead_letter_topic(GROUP, TOPIC)


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC, max_deliveries="2", nack_backoff_ms="0", retention_ms="3d")
    return node


def buried(fleet: Fleet, topic: str = DEAD) -> list[Record]:
    """What lies in the dead-letter topic."""
    if not any(box.catalog.find_topic(topic) for box in fleet.nodes.values() if box.is_running):
        return []
    fetched = fleet.leader(topic).call(Fetch(topic, 0, 0, max_bytes=1 << 24)).result
    assert isinstance(fetched, Fetched)
    return [record for data in fetched.batches for record in BatchView(data).records()]


def reject(node: Node, count: int = 16) -> None:
    """Whatever is ready dies, and has time to be moved."""
    assert node.call(settle(polled(node, poll(count)), REJECT, "bad")).result == Settled([])
    node.fleet.advance(2_000)


def story(record: Record) -> dict[str, str]:
    names = [name for name, _ in record.headers]
    assert len(names) == len(set(names))
    return {name: value.decode() for name, value in record.headers if name.startswith("flotilla-dead-")}


def test_the_last_failure_goes_to_the_dead_letters_with_its_story(node: Node) -> None:
    began_ms = node.now_ms()
    store(node, b"fine")
    store(node, b"poison", key=b"k", headers=(("h", b"v"),), priority=5, content_type=CONTENT_JSON)
    for attempt in (1, 2):
        found = [delivery for delivery in polled(node) if delivery.first == 1]
        assert [delivery.attempt for delivery in found] == [attempt]
        node.call(settle(found, FAIL, f"failed {attempt}"))
    node.fleet.advance(1_000)
    (record,) = buried(node.fleet)
    assert record[:3] == (b"poison", b"k", record.headers)
    assert (record.priority, record.content_type, record.headers[0]) == (5, CONTENT_JSON, ("h", b"v"))
    assert story(record) == {
        "flotilla-dead-reason": "failed 2",
        "flotilla-dead-attempts": "2",
        "flotilla-dead-topic": TOPIC,
        "flotilla-dead-partition": "0",
        "flotilla-dead-offset": "1",
        "flotilla-dead-group": GROUP,
        "flotilla-dead-first-time": str(began_ms),
        "flotilla-dead-died-time": str(record.timestamp_ms),
        "flotilla-dead-own-headers": "1",
    }
    described = describe(node)
    assert (described.dead_total, described.dying, described.leased) == (1, 0, 1)
    # The group goes on, and the topic is kept as long as its source.
    topic = node.catalog.topic(DEAD)
    assert (len(topic.partitions), topic.settings.retention_ms) == (1, 3 * 24 * 3_600_000)


def test_many_die_and_all_arrive_in_order(node: Node) -> None:
    sent = [b"%03d" % number for number in range(300)]
    for first in range(0, 300, 50):
        store(node, *sent[first : first + 50])
    while found := polled(node, poll(97)):
        node.call(settle(found, REJECT))
    node.fleet.advance(5_000)
    assert [record.payload for record in buried(node.fleet)] == sent
    assert describe(node).dying == 0


def test_leases_that_expire_for_the_last_time_die_without_a_request(node: Node) -> None:
    store(node, b"a")
    for _ in range(2):
        assert polled(node, poll(visibility_ms=1_000))
        node.fleet.advance(2_000)
    node.fleet.advance(1_000)
    (record,) = buried(node.fleet)
    assert story(record)["flotilla-dead-attempts"] == "2"


def test_a_produce_whose_answer_was_lost_is_not_stored_twice(node: Node) -> None:
    """The mover does not know that it arrived and sends it again, alone and with others."""
    node.fleet.create(DEAD)
    store(node, b"a", b"b")
    elsewhere = node.elsewhere
    ask, failing = elsewhere.ask, [True]

    def forgetful(request: object, done: object) -> None:
        def answered(result: object) -> None:
            done(UnavailableError("lost") if failing else result)  # type: ignore[operator]

        ask(request, answered)  # type: ignore[arg-type]

    elsewhere.ask = forgetful  # type: ignore[method-assign]
    reject(node, 1)
    reject(node, 1)
    node.fleet.advance(3_000)
    assert describe(node).dying == 2
    failing.clear()
    node.fleet.advance(RETRY_MS_MAX + 1_000)
    assert describe(node).dying == 0
    assert [record.payload for record in buried(node.fleet)] == [b"a", b"b"]


def test_a_new_leader_continues_what_the_old_one_did_not_finish() -> None:
    fleet = three()
    fleet.create(TOPIC)
    old = fleet.leader(TOPIC)
    store(old, b"a", b"b", b"c")
    found = polled(old)
    # No node that could create the topic can be reached.
    elsewhere = old.elsewhere
    asked: list[object] = []
    elsewhere.ask = lambda request, done: asked.append(request)  # type: ignore[method-assign]
    old.call(settle(found, REJECT, "bad"))
    assert asked
    fleet.isolate(old.node)
    fleet.wait(lambda: len(buried(fleet)) == 3, limit_ms=60_000)
    fleet.heal(old.node)
    fleet.advance(5_000)
    assert [record.payload for record in buried(fleet)] == [b"a", b"b", b"c"]
    assert describe(fleet.leader(TOPIC)).dying == 0


def test_a_crash_between_arrival_and_burial_buries_once() -> None:
    fleet = Fleet(1).form()
    node = fleet.nodes[1]
    fleet.create(TOPIC)
    fleet.create(DEAD)
    store(node, b"a", b"b")
    found = polled(node)
    elsewhere = node.elsewhere
    ask = elsewhere.ask
    elsewhere.ask = lambda request, done: ask(request, lambda _: None)  # type: ignore[method-assign]
    node.call(settle(found, REJECT))
    assert len(buried(fleet)) == 2
    assert describe(node).dying == 2
    fleet.kill(1)
    node = fleet.restart(1)
    fleet.leader(TOPIC)
    fleet.leader(DEAD)
    fleet.wait(lambda: describe(node).dying == 0)
    assert [record.payload for record in buried(fleet)] == [b"a", b"b"]


def test_a_group_of_the_same_name_is_another_one(node: Node) -> None:
    store(node, b"a")
    reject(node)
    node.call(DeleteGroup(TOPIC, 0, GROUP, is_forced=True))
    reject(node)
    node.fleet.advance(1_000)
    assert [record.payload for record in buried(node.fleet)] == [b"a", b"a"]


def test_a_reset_group_can_die_again(node: Node) -> None:
    store(node, b"a")
    reject(node)
    node.call(ResetGroup(TOPIC, 0, GROUP, Start()))
    reject(node)
    node.fleet.advance(1_000)
    assert len(buried(node.fleet)) == 2


def lose(node: Node, group: str, found: list[Delivery]) -> None:
    node.broker.lost(["a"])
    node.fleet.advance(10_000)


def run_out(node: Node, group: str, found: list[Delivery]) -> None:
    node.fleet.advance(60_000)


def fail(node: Node, group: str, found: list[Delivery]) -> None:
    node.call(settle(found, FAIL, "unknown content", 0, group, DEAD))


@pytest.mark.parametrize("end", [lose, run_out, fail])
@pytest.mark.parametrize("group", [REDRIVE_GROUP, "triage"])
def test_no_failure_of_a_dead_letter_is_the_last(
    node: Node, group: str, end: Callable[[Node, str, list[Delivery]], None]
) -> None:
    """Whatever the topic and the letter say: it would be lost."""
    store(node, b"a", max_deliveries=1)
    reject(node)
    store(node, b"by hand", topic=DEAD, max_deliveries=1)
    uncounted = LOSS_COUNT_MAX if end is lose else 0
    for delivery in range(1, 12 + uncounted):
        found = polled(node, Poll(DEAD, group, "a", max_messages=16, wait_ms=0))
        attempt = max(1, delivery - uncounted)
        assert [(one.first, one.count, one.attempt) for one in found] == [(0, 1, attempt), (1, 1, attempt)]
        end(node, group, found)
        if group != REDRIVE_GROUP:
            node.fleet.advance(600_000)
    totals = node.partition(DEAD).machine.groups[group].totals
    assert (totals.dropped, totals.dead, totals.failed) == (0, 0, 22)
    explained = node.call(ExplainMessage(DEAD, 0, 0, group)).result
    assert isinstance(explained, Explanation)
    assert explained.history[0].startswith("attempt 11 failed: ")


def test_dead_letters_of_dead_letters_are_dropped(node: Node) -> None:
    store(node, b"a")
    reject(node)
    result = node.call(Poll(DEAD, "triage", "a")).result
    assert isinstance(result, Polled)
    node.call(settle(result.deliveries, REJECT, group="triage", topic=DEAD))
    node.fleet.advance(2_000)
    assert node.catalog.find_topic(dead_letter_topic("triage", DEAD)) is None
    assert node.partition(DEAD).machine.groups["triage"].totals.dropped == 1


def test_a_dead_letter_keeps_its_limits_as_headers_only(node: Node) -> None:
    store(node, b"a", max_deliveries=9, ttl_ms=60_000)
    reject(node)
    node.fleet.advance(3_600_000)
    (record,) = buried(node.fleet)
    assert (record.max_deliveries, record.ttl_ms) == (0, 0)
    headers = story(record)
    assert (headers["flotilla-dead-max-deliveries"], headers["flotilla-dead-ttl-ms"]) == ("9", "60000")
    assert polled(node, Poll(DEAD, "triage", "a"))


def test_a_letter_keeps_all_headers_of_its_message(node: Node) -> None:
    """However many, and also those that look like what the broker adds."""
    own = (("flotilla-dead-reason", b"long ago"), *((f"h{n}", b"x" * 1_000) for n in range(63)))
    store(node, b"a", headers=own)
    reject(node)
    (record,) = buried(node.fleet)
    assert record.headers[:64] == own
    assert dict(record.headers)["flotilla-dead-reason"] == b"bad"


def test_no_limit_of_the_dead_letter_topic_refuses_a_letter(node: Node) -> None:
    node.fleet.create(DEAD, payload_bytes_max="1KiB")
    store(node, b"a" * 5_000, b"b")
    reject(node)
    assert [len(record.payload) for record in buried(node.fleet)] == [5_000, 1]
    # Its other producers keep to them.
    assert node.call(Produce(DEAD, 0, encode_batch([Record(b"c" * 5_000)]))).code == "INVALID_ARGUMENT"


def test_a_letter_that_is_refused_holds_up_no_other(node: Node) -> None:
    node.fleet.create(DEAD, dedup_window_ms="1m")
    elsewhere = node.elsewhere
    ask, is_strict = elsewhere.ask, [True]

    def refusing(request: object, done: Done) -> None:
        if isinstance(request, Produce) and b"poison" in request.batch and is_strict[0]:
            done(InvalidArgumentError("too bad"))
        else:
            ask(request, done)  # type: ignore[arg-type]

    elsewhere.ask = refusing  # type: ignore[method-assign, assignment]
    for number in range(5):
        store(node, b"poison" if number in (0, 3) else b"%d" % number)
        reject(node)
    assert [record.payload for record in buried(node.fleet)] == [b"1", b"2", b"4"]
    assert (describe(node).dying, describe(node).unburied) == (2, 2)
    explained = node.call(ExplainMessage(TOPIC, 0, 3, GROUP)).result
    assert isinstance(explained, Explanation)
    assert (explained.state, explained.next) == ("dying", "its dead letter is tried again: too bad")
    # Whatever the dead-letter topic remembers of its producers, nothing is stored twice.
    node.fleet.advance(3 * 60_000)
    is_strict[0] = False
    node.fleet.advance(2 * RETRY_MS_MAX)
    assert sorted(record.payload for record in buried(node.fleet)) == [b"1", b"2", b"4", b"poison", b"poison"]
    assert (describe(node).dying, describe(node).unburied) == (0, 0)


def test_a_letter_whose_burial_was_lost_is_found_after_its_producer_was_forgotten(node: Node) -> None:
    node.fleet.create(DEAD, dedup_window_ms="1m")
    elsewhere = node.elsewhere
    ask, failing = elsewhere.ask, [True]

    def deaf(request: object, done: Done) -> None:
        def answered(result: object) -> None:
            done(UnavailableError("the answer was lost") if failing[0] else result)  # type: ignore[arg-type]

        ask(request, answered)  # type: ignore[arg-type]

    elsewhere.ask = deaf  # type: ignore[method-assign, assignment]
    store(node, b"a", b"b")
    reject(node)
    assert describe(node).dying == 2
    node.fleet.advance(3 * 60_000)
    # The window is forgotten when the topic is written to.
    node.call(Produce(DEAD, 0, encode_batch([Record(b"by hand")])))
    node.fleet.advance(3 * 60_000)
    failing[0] = False
    node.fleet.advance(2 * RETRY_MS_MAX)
    assert [record.payload for record in buried(node.fleet)] == [b"a", b"b", b"by hand"]
    assert describe(node).dying == 0


@pytest.mark.parametrize("groups", [("g", "h"), ("g",)])
def test_groups_send_their_letters_where_their_setting_says(node: Node, groups: tuple[str, ...]) -> None:
    for group in groups:
        node.call(AlterGroup(TOPIC, group, {"dead_letter_topic": "graveyard"}))
    store(node, b"a")
    for group in groups:
        node.call(settle(polled(node, poll(group=group)), REJECT, "bad", group=group))
        node.fleet.advance(2_000)
    told = [dict(record.headers)["flotilla-dead-group"].decode() for record in buried(node.fleet, "graveyard")]
    assert told == list(groups)
    assert node.catalog.topic("graveyard").settings.holds_dead_letters


@pytest.mark.parametrize("name", ["", "not a name", "__system"])
def test_a_bad_dead_letter_topic_is_refused(node: Node, name: str) -> None:
    assert node.call(AlterGroup(TOPIC, GROUP, {"dead_letter_topic": name or TOPIC})).code == "INVALID_ARGUMENT"


NAMES = ["a", "b", "a.b", "b.a", "a..b", ".a", "a.", "..a", "a..", "a.b.", ".b.a", "a.b.b", "-", "a-b"]


def test_no_two_groups_share_a_dead_letter_topic_by_accident() -> None:
    pairs = [(group, topic) for group in NAMES for topic in NAMES]
    assert len({dead_letter_topic(*pair) for pair in pairs}) == len(pairs)
    assert len({redrive_group("graveyard", *pair) for pair in pairs}) == len(pairs)


def test_the_name_of_a_dead_letter_topic_is_always_a_name() -> None:
    assert dead_letter_topic("g", "t") == "dlq.g.t"
    assert dead_letter_topic("billing", "orders.eu") == "dlq.billing.orders.eu"
    assert dead_letter_topic("billing.orders", "eu") == "dlq.billing..orders.eu"
    long = [dead_letter_topic("g" * 200, "t" * 200), dead_letter_topic("g" * 200, "t" * 199 + "u")]
    assert long[0] != long[1]
    for name in long:
        assert len(name) == NAME_LENGTH_MAX
        check_topic_name(name)


def test_only_a_topic_that_holds_dead_letters_has_none_of_its_own() -> None:
    """Its setting says so, not its name."""
    plain = Topic(1, "dlq.g.orders", 1, (("max_deliveries", 2),), (), 0, 1)
    marked = Topic(2, "graveyard", 1, (("holds_dead_letters", 1),), (), 0, 1, (("strict", (("max_deliveries", 3),)),))
    assert (plain.rules_of("g").dead_letters, plain.rules_of("g").max_deliveries) == (1, 2)
    assert (marked.rules_of("g").dead_letters, marked.rules_of("g").max_deliveries) == (0, 0)
    assert marked.rules_of("strict").max_deliveries == 3
    # A redrive fails because it was stopped: wherever it works, no failure is the last.
    assert plain.rules_of(REDRIVE_GROUP).max_deliveries == 0


def test_the_topic_is_asked_for_once_it_is_known_to_be_missing(node: Node) -> None:
    store(node, b"a")
    reject(node)
    kinds = [type(request) for request in node.fleet.asked]
    assert kinds == [Produce, CreateTopic, Produce]


def test_a_group_is_not_deleted_before_its_dead_are_buried(node: Node) -> None:
    elsewhere = node.elsewhere
    ask = elsewhere.ask
    elsewhere.ask = lambda request, done: None  # type: ignore[method-assign]
    store(node, b"a")
    node.call(settle(polled(node), REJECT))
    assert describe(node).dying == 1
    assert node.call(DeleteGroup(TOPIC, 0, GROUP, is_forced=True)).code == "UNAVAILABLE"
    elsewhere.ask = ask  # type: ignore[method-assign]
    node.partition(TOPIC).queue().dead_letters._send(GROUP)
    node.fleet.advance(1_000)
    assert describe(node).dying == 0
    assert node.call(DeleteGroup(TOPIC, 0, GROUP, is_forced=True)).code == "Done"
