"""Calls find their broker, are repeated when that is safe, and end by their deadline."""

from random import Random

import pytest

from flotilla.client._core.backoff import Backoff
from flotilla.client._core.calls import ClientCall
from flotilla.client._core.session_options import SessionOptions
from flotilla.types.address import parse_address
from flotilla.types.errors import (
    AlreadyExistsError,
    ConnectionClosedError,
    DeadlineError,
    InvalidArgumentError,
    NotFoundError,
    NotLeaderError,
    OutcomeUnknownError,
    OverloadedError,
    StorageFailedError,
    UnavailableError,
    UnknownError,
)
from flotilla.types.operations import (
    CreateTopic,
    Done,
    Fetch,
    Fetched,
    GetMetadata,
    ListOffsets,
    Metadata,
    OffsetFound,
    PartitionInfo,
    Reply,
    Request,
    TopicReply,
)
from flotilla.types.operations.cluster import DescribeReplicas, ReplicasDescribed
from flotilla.types.operations.request import ANY, CONTROLLER, ONCE, READ, REPEATABLE, Route
from tests.unit.client.brokers import HELD, Brokers
from tests.unit.client.world import World

ROUTE = Route("orders", 0)
LATEST = ListOffsets("orders", 0, -1)


def cluster_of(nodes: int, *, leader: int = 1) -> Brokers:
    cluster = Brokers(nodes).form()
    cluster.create("orders")
    cluster.move("orders", 0, leader)
    return cluster


def refuse(times: int, error: Exception, kind: type[Request] = ListOffsets):
    """A fault that answers the first requests of a kind with an error."""
    left = [times]

    def fault(node, request):
        if isinstance(request, kind) and left[0]:
            left[0] -= 1
            return error
        return None

    return fault


def test_a_call_finds_the_leader_by_asking_any_broker():
    world = World(cluster_of(3, leader=3), bootstrap=(1,))
    results = world.call(LATEST, ROUTE)
    world.run()
    assert results == [OffsetFound(0)]
    assert world.dialled == [1, 3]


def test_known_leaders_are_not_looked_up_again():
    world = World(cluster_of(1))
    for _ in range(3):
        world.call(LATEST, ROUTE)
        world.run()
    assert world.cluster.count(GetMetadata) == 1
    assert world.dialled == [1]


def test_the_leader_that_a_broker_names_is_followed_at_once():
    cluster = cluster_of(3, leader=1)
    world = World(cluster)
    world.call(LATEST, ROUTE)
    world.run()
    cluster.move("orders", 0, 2)
    results = world.call(LATEST, ROUTE)
    world.run()
    assert results == [OffsetFound(0)]
    assert cluster.count(GetMetadata) == 1


def test_a_leader_that_is_not_known_is_waited_for():
    world = World(cluster_of(3), bootstrap=(1,))
    for node in (2, 3):
        world.kill(node)
    # Without the others the last leader gives up.
    world.pass_ms(3_000)
    results = world.call(LATEST, ROUTE)
    world.pass_ms(3_000)
    assert results == []
    world.restart(2)
    world.pass_ms(6_000)
    assert results == [OffsetFound(0)]


def test_two_brokers_that_name_each_other_are_not_asked_without_end():
    cluster = cluster_of(2)
    addresses = cluster.addresses
    cluster.fault = lambda node, request: (
        NotLeaderError(3 - node, addresses[3 - node]) if isinstance(request, ListOffsets) else None
    )
    world = World(cluster)
    results = world.call(LATEST, ROUTE, timeout_ms=2_000)
    world.pass_ms(2_000)
    assert [type(result) for result in results] == [DeadlineError]
    assert isinstance(results[0].__cause__, NotLeaderError)
    assert cluster.count(ListOffsets) < 20


def test_the_next_broker_is_asked_when_one_is_down():
    cluster = cluster_of(3, leader=3)
    world = World(cluster)
    world.down = {1, 2}
    results = world.call(LATEST, ROUTE)
    world.run()
    assert results == [OffsetFound(0)]


@pytest.mark.parametrize("is_learned", [False, True])
@pytest.mark.parametrize("alive", [1, 2, 3])
def test_a_call_to_any_broker_reaches_the_one_that_is_left(alive, is_learned):
    world = World(cluster_of(3))
    if is_learned:
        # By this it knows all brokers, and is connected to one of them at the most.
        world.call(LATEST, ROUTE)
        world.run()
    world.down = {1, 2, 3} - {alive}
    for node in world.down:
        world.stop(node)
    results = world.call(GetMetadata(), ANY)
    world.pass_ms(3_000)
    assert [type(result) for result in results] == [Metadata]


def test_clients_begin_at_different_brokers():
    first = []
    cluster = cluster_of(3)
    for seed in range(30):
        world = World(cluster, seed=seed)
        world.call(GetMetadata(), ANY)
        world.run()
        first.append(world.dialled[0])
    assert set(first) == {1, 2, 3}


def test_a_cluster_that_comes_back_is_found_again():
    world = World(cluster_of(2, leader=2))
    world.down = {1, 2}
    results = world.call(LATEST, ROUTE)
    world.pass_ms(3_000)
    assert results == []
    world.down = set()
    world.pass_ms(1_500)
    assert results == [OffsetFound(0)]


def test_the_controller_is_found_and_followed():
    cluster = Brokers(3).form()
    cluster.move_metadata(2)
    world = World(cluster, bootstrap=(1,))
    results = world.call(CreateTopic("new"), CONTROLLER, effect=ONCE)
    world.run()
    assert isinstance(results[0], TopicReply)
    cluster.move_metadata(3)
    results = world.call(CreateTopic("newer"), CONTROLLER, effect=ONCE)
    world.run()
    assert isinstance(results[0], TopicReply)


@pytest.mark.parametrize("error", [OverloadedError("full"), UnavailableError("no quorum")])
def test_a_call_that_must_happen_once_is_retried_after_a_passing_refusal(error):
    cluster = Brokers(1).form()
    cluster.fault = refuse(3, error, CreateTopic)
    world = World(cluster)
    results = world.call(CreateTopic("new"), CONTROLLER, effect=ONCE)
    world.pass_ms(1_000)
    assert isinstance(results[0], TopicReply)
    assert cluster.count(CreateTopic) == 4


def test_a_broker_says_when_to_come_back():
    error = OverloadedError("full")
    error.retry_after_ms = 700
    cluster = cluster_of(1)
    cluster.fault = refuse(1, error)
    world = World(cluster)
    results = world.call(LATEST, ROUTE)
    world.pass_ms(690)
    assert results == []
    world.pass_ms(10)
    assert results == [OffsetFound(0)]


@pytest.mark.parametrize("error", [AlreadyExistsError("taken"), InvalidArgumentError("no")])
def test_a_lasting_error_is_returned_at_once(error):
    cluster = Brokers(1).form()
    cluster.fault = refuse(99, error, CreateTopic)
    world = World(cluster)
    results = world.call(CreateTopic("new"), CONTROLLER, effect=ONCE)
    world.run()
    assert [type(result) for result in results] == [type(error)]


@pytest.mark.parametrize("error", [OutcomeUnknownError("leadership was lost"), StorageFailedError("disk")])
def test_a_call_that_must_happen_once_is_not_repeated_when_it_may_have_happened(error):
    cluster = Brokers(1).form()
    cluster.fault = refuse(1, error, CreateTopic)
    world = World(cluster)
    results = world.call(CreateTopic("new"), CONTROLLER, effect=ONCE)
    world.pass_ms(5_000)
    assert [type(result) for result in results] == [OutcomeUnknownError]
    assert cluster.count(CreateTopic) == 1


def test_a_repeatable_call_is_repeated_when_its_outcome_is_unknown():
    cluster = Brokers(1).form()
    cluster.fault = refuse(1, OutcomeUnknownError("leadership was lost"), CreateTopic)
    world = World(cluster)
    results = world.call(CreateTopic("new"), CONTROLLER, effect=REPEATABLE)
    world.pass_ms(1_000)
    assert isinstance(results[0], TopicReply)


@pytest.mark.parametrize(
    ("effect", "is_done", "expected"),
    [(ONCE, True, OutcomeUnknownError), (ONCE, False, OutcomeUnknownError), (READ, False, TopicReply)],
)
def test_a_connection_lost_with_a_request_on_it(effect, is_done, expected):
    cluster = Brokers(1).form()
    world = World(cluster)
    world.call(GetMetadata(), ANY)
    world.run()
    results = world.call(CreateTopic("new"), CONTROLLER, effect=effect)
    world.act()
    while world.cluster.count(GetMetadata) < 2:
        world.serve()
        world.deliver()
        world.act()
    world.deliver()
    world.act()
    if is_done:
        world.serve()
    world.cut(1)
    world.pass_ms(2_000)
    assert [type(result) for result in results] == [expected]
    assert cluster.has_topic("new") is (is_done or expected is TopicReply)


def test_a_request_that_never_left_is_certainly_not_done():
    world = World(Brokers(1).form())
    world.down = {1}
    results = world.call(CreateTopic("new"), CONTROLLER, effect=ONCE, timeout_ms=3_000)
    world.pass_ms(2_999)
    assert results == []
    world.pass_ms(1)
    assert [type(result) for result in results] == [DeadlineError]
    assert "refused" in str(results[0])


def test_a_request_without_an_answer_ends_by_its_deadline_as_unknown():
    world = World(Brokers(1).form())
    world.call(GetMetadata(), ANY)
    world.run()
    world.silent = {1}
    read = world.call(GetMetadata(), ANY, timeout_ms=1_000)
    write = world.call(CreateTopic("new"), ANY, timeout_ms=1_000, effect=REPEATABLE)
    world.pass_ms(1_000)
    assert [type(result) for result in read] == [DeadlineError]
    assert [type(result) for result in write] == [OutcomeUnknownError]
    world.silent = set()
    world.run()
    assert len(write) == 1, "a late answer is dropped"


def test_the_last_answer_is_named_when_time_is_up():
    cluster = cluster_of(1)
    cluster.fault = refuse(999, OverloadedError("full"))
    world = World(cluster)
    results = world.call(LATEST, ROUTE, timeout_ms=200)
    world.pass_ms(200)
    assert [type(result) for result in results] == [DeadlineError]
    assert "OVERLOADED: full" in str(results[0])


# Brokers that die without a word.


def with_a_silent_leader(nodes: int = 3, **options: int) -> World:
    """Node 1 leads everything and has just fallen silent; the client is connected to it."""
    cluster = cluster_of(nodes)
    cluster.move_metadata(1)
    world = World(cluster, bootstrap=(1,), options=SessionOptions(**options))
    world.call(LATEST, ROUTE)
    world.run()
    world.silent = {1}
    return world


def test_a_silent_broker_is_left_as_soon_as_another_leads():
    world = with_a_silent_leader()
    results = world.call(LATEST, ROUTE)
    world.pass_ms(1_700)
    assert results == []
    world.cluster.move("orders", 0, 2)
    world.pass_ms(600)
    assert results == [OffsetFound(0)]
    assert {link.node for link in world.links.values()} >= {2}
    assert 1 not in {link.node for link in world.links.values()}


def test_a_former_suspect_is_asked_when_all_others_are_silent():
    world = with_a_silent_leader(nodes=2)
    first = world.call(LATEST, ROUTE)
    world.cluster.move("orders", 0, 2)
    world.pass_ms(2_500)
    assert first == [OffsetFound(0)]
    # Node 1 has recovered, but nothing was sent to it since.
    world.silent = {2}
    second = world.call(LATEST, ROUTE)
    world.pass_ms(1_100)
    world.cluster.move("orders", 0, 1)
    world.pass_ms(2_000)
    assert second == [OffsetFound(0)]


def test_a_slow_broker_gets_nothing_twice_and_others_few_questions():
    world = with_a_silent_leader()
    slow = world.call(LATEST, ROUTE)
    world.pass_ms(5_000)
    assert slow == []
    asked = [node for node, request in world.cluster.requests if isinstance(request, GetMetadata)]
    assert set(asked[1:]) <= {2, 3}
    assert 4 <= len(asked) <= 20
    world.silent = set()
    world.run()
    assert slow == [OffsetFound(0)]
    assert world.cluster.count(ListOffsets) == 2, "one before it became slow, one since"
    world.pass_ms(5_000)
    assert world.cluster.count(GetMetadata) <= len(asked) + 1, "it has answered: no other broker is asked any more"


def test_any_answer_on_the_connection_prevents_suspicion():
    world = with_a_silent_leader()
    world.silent = set()
    world.cluster.fault = hold(ListOffsets)
    world.call(LATEST, ROUTE)
    for _ in range(12):
        world.call(Fetch("orders", 0, 0, 1_000), ROUTE)
        world.pass_ms(700)
    assert world.cluster.count(GetMetadata) == 1


@pytest.mark.parametrize("term", [0, 1], ids=["a guess", "an old opinion"])
def test_only_a_newer_term_counts_against_a_leader_that_is_slow(term):
    world = with_a_silent_leader()
    cluster = world.cluster
    world.call(LATEST, ROUTE)
    metadata = cluster.answer("orders", 0, GetMetadata(["orders"]))
    metadata.topics[0].partitions[0] = PartitionInfo(0, 2, [1, 2, 3], term)
    cluster.fault = lambda node, request: metadata if isinstance(request, GetMetadata) else None
    world.pass_ms(5_000)
    assert cluster.count(GetMetadata) > 1
    assert [node for node, request in cluster.requests if isinstance(request, ListOffsets)] == [1, 1]


def test_calls_to_any_broker_leave_a_silent_one_at_once():
    world = with_a_silent_leader()
    results = world.call(GetMetadata(), ANY)
    world.pass_ms(900)
    assert results == []
    world.pass_ms(200)
    assert [type(result) for result in results] == [Metadata]


def test_a_silent_broker_that_is_alone_is_asked_once():
    world = with_a_silent_leader(nodes=1)
    world.call(GetMetadata(), ANY)
    world.call(LATEST, ROUTE)
    world.pass_ms(9_000)
    assert (world.cluster.count(GetMetadata), world.cluster.count(ListOffsets)) == (2, 2)


def test_a_call_that_must_happen_once_is_not_sent_to_the_next_leader():
    world = with_a_silent_leader()
    results = world.call(CreateTopic("new"), CONTROLLER, effect=ONCE)
    world.pass_ms(500)
    world.cluster.move_metadata(2)
    world.pass_ms(2_000)
    assert [type(result) for result in results] == [OutcomeUnknownError]
    assert world.cluster.count(CreateTopic) == 1


def test_a_dial_that_leads_nowhere_does_not_hold_up_the_question():
    cluster = cluster_of(3, leader=3)
    world = World(cluster)
    world.silent = {1, 2}
    results = world.call(LATEST, ROUTE)
    world.pass_ms(2_100)
    assert results == [OffsetFound(0)]


def test_a_silent_broker_is_the_last_to_be_asked_until_it_speaks():
    world = with_a_silent_leader()
    world.call(GetMetadata(), ANY)
    world.pass_ms(3_000)
    address = parse_address(world.cluster.addresses[1])
    assert world.session.routes.candidates()[-1] == address
    assert address in world.session.routes.suspects
    world.silent = set()
    world.call(LATEST, ROUTE)
    world.pass_ms(3_000)
    assert not world.session.routes.suspects


def test_a_call_that_comes_later_to_a_silent_broker_has_others_asked_at_once():
    world = with_a_silent_leader()
    world.call(LATEST, ROUTE, timeout_ms=1_200)
    world.pass_ms(5_000)
    world.cluster.move("orders", 0, 2)
    results = world.call(LATEST, ROUTE)
    world.pass_ms(100)
    assert results == [OffsetFound(0)]


def test_a_silent_broker_is_dropped_even_if_all_its_calls_are_cancelled():
    world = with_a_silent_leader(nodes=1)
    world.call(LATEST, ROUTE, timeout_ms=500)
    first = list(world.links)
    world.pass_ms(9_900)
    assert list(world.links) == first
    world.pass_ms(200)
    assert not world.links


def hold(kind: type[Request]):
    """A fault that takes requests of a kind and does not answer them."""
    return lambda node, request: HELD if isinstance(request, kind) else None


def test_a_long_poll_may_be_silent_for_longer():
    world = World(cluster_of(1), options=SessionOptions(answer_ms_max=1_000))
    world.cluster.fault = hold(Fetch)
    results = world.call(Fetch("orders", 0, 0, 1_000, wait_ms=3_000), ROUTE)
    world.pass_ms(3_900)
    assert world.cluster.count(Fetch) == 1
    world.pass_ms(200)
    assert world.cluster.count(Fetch) == 2
    assert results == []


def test_a_dead_address_does_not_hold_calls_for_long():
    cluster = cluster_of(1)
    world = World(cluster, options=SessionOptions(connect_ms_max=500))
    world.silent = {1}
    results = world.call(LATEST, ROUTE)
    world.pass_ms(600)
    world.silent = set()
    world.pass_ms(1_000)
    assert results == [OffsetFound(0)]
    assert len(world.dialled) >= 2


def test_a_topic_that_does_not_exist_is_asked_for_more_than_once():
    cluster = Brokers(1).form()
    world = World(cluster)
    results = world.call(LATEST, ROUTE)
    world.run()
    assert results == []
    cluster.create("orders")
    world.pass_ms(1_000)
    assert results == [OffsetFound(0)]
    missing = world.call(ListOffsets("nothing", 0, -1), Route("nothing", 0))
    world.pass_ms(1_000)
    assert [type(result) for result in missing] == [NotFoundError]


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (LATEST, OffsetFound(7)),
        (Fetch("orders", 0, 0, 1), Fetched([], 0, 0)),
        (DescribeReplicas("orders", 0), ReplicasDescribed([], 0)),
    ],
)
def test_a_leader_that_has_not_heard_of_its_topic_yet_is_asked_again(request_: Request, reply: Reply):
    cluster = cluster_of(1)
    answers = [NotFoundError("no such topic"), NotFoundError("no such topic"), reply]
    cluster.fault = lambda node, request: answers.pop(0) if type(request) is type(request_) else None
    world = World(cluster)
    results = world.call(request_, ROUTE)
    world.pass_ms(1_000)
    assert results == [reply]


def test_a_topic_is_missing_only_if_the_controller_says_so():
    cluster = cluster_of(2, leader=2)
    cluster.move_metadata(2)
    metadata = cluster.answer("orders", 0, GetMetadata(["orders"]))
    metadata.topics.clear()
    # Node 1 has not heard of the topic, however often it is asked.
    cluster.fault = lambda node, request: metadata if node == 1 and isinstance(request, GetMetadata) else None
    world = World(cluster, bootstrap=(1,))
    results = world.call(LATEST, ROUTE)
    world.pass_ms(5_000)
    assert results == [OffsetFound(0)]


def test_a_partition_that_does_not_exist_is_refused():
    world = World(cluster_of(1))
    results = world.call(ListOffsets("orders", 9, -1), Route("orders", 9))
    world.pass_ms(1_000)
    assert [type(result) for result in results] == [NotFoundError]


def test_requests_beyond_the_bound_wait_their_turn():
    world = World(cluster_of(1), requests_max=2)
    world.call(GetMetadata(), ANY)
    world.run()
    results = [world.call(LATEST, ROUTE) for _ in range(5)]
    world.act()
    world.serve()
    world.deliver()
    world.act()
    assert len([None for _, request in world.cluster.requests if isinstance(request, ListOffsets)]) <= 2
    world.run()
    assert results == [[OffsetFound(0)]] * 5


def test_a_cancelled_call_has_no_result():
    world = World(cluster_of(1))
    world.call(GetMetadata(), ANY)
    world.run()
    results = world.call(LATEST, ROUTE)
    call = next(iter(world.session._calls))
    world.session.cancel(call)
    world.pass_ms(20_000)
    assert results == []


@pytest.mark.parametrize("is_withdrawn", [True, False])
def test_a_call_that_ends_while_another_one_is_answered_has_its_result_or_none(is_withdrawn: bool):
    """Two answers come in one read, and the first one's receiver gives the second call up."""
    world = World(cluster_of(1))
    world.call(GetMetadata(), ANY)
    world.run()
    results: list[object] = []
    said: list[bool] = []

    def give_up(result: object) -> None:
        if is_withdrawn:
            said.append(world.session.withdraw(second, world.now_ms))
        else:
            world.session.cancel(second)

    first = ClientCall(LATEST, world.now_ms + 5_000, give_up, route=ROUTE)
    second = ClientCall(LATEST, world.now_ms + 5_000, results.append, route=ROUTE)
    for call in (first, second):
        world.session.submit(call, world.now_ms)
    world.run()
    assert said == ([True] if is_withdrawn else [])
    assert results == ([OffsetFound(0)] if is_withdrawn else [])


def test_an_idle_connection_is_closed_and_made_again():
    world = World(cluster_of(1), options=SessionOptions(idle_ms_max=60_000))
    world.call(LATEST, ROUTE)
    world.pass_ms(30_000)
    assert world.links
    world.pass_ms(60_000)
    assert not world.links
    results = world.call(LATEST, ROUTE)
    world.run()
    assert results == [OffsetFound(0)]


def test_closing_ends_everything():
    world = World(cluster_of(1))
    world.call(GetMetadata(), ANY)
    world.run()
    world.silent = {1}
    read = world.call(GetMetadata(), ANY)
    write = world.call(CreateTopic("new"), ANY, effect=ONCE)
    world.act()
    world.session.close()
    world.run()
    late = world.call(GetMetadata(), ANY)
    assert [type(result) for result in (*read, *write, *late)] == [
        ConnectionClosedError,
        OutcomeUnknownError,
        ConnectionClosedError,
    ]
    assert not world.links


def test_a_broker_that_speaks_something_else_is_left():
    world = World(cluster_of(1))
    results = world.call(GetMetadata(), ANY, timeout_ms=1_000)
    world.act()
    link = next(iter(world.links))
    world.session.received(link, b"HTTP/1.1 400 Bad Request\r\n", world.now_ms)
    world.act()
    assert link not in world.links
    world.pass_ms(500)
    assert isinstance(results[0], Metadata)


@pytest.mark.parametrize(("effect", "expected"), [(READ, UnknownError), (ONCE, OutcomeUnknownError)])
def test_an_answer_of_another_kind_is_no_answer(effect, expected):
    cluster = Brokers(1).form()
    cluster.fault = lambda node, request: Done()
    world = World(cluster)
    results = world.call(CreateTopic("new"), ANY, effect=effect)
    world.run()
    assert [type(result) for result in results] == [expected]


def test_a_fetch_brings_batches():
    world = World(cluster_of(1))
    results = world.call(Fetch("orders", 0, 0, 1_000), ROUTE)
    world.run()
    assert results == [Fetched([], 0, 0)]


def test_a_topic_to_be_written_to_comes_to_be():
    cluster = Brokers(1, auto_create_topics=True).form()
    world = World(cluster)
    found = []
    world.session.resolve("fresh", world.now_ms + 5_000, found.append, world.now_ms, create=True)
    world.pass_ms(500)
    assert [topic.name for topic in found] == ["fresh"]


@pytest.mark.parametrize("create", [True, False])
def test_a_topic_that_does_not_come_to_be_is_said_to_be_missing_at_once(create):
    cluster = Brokers(2).form()
    cluster.move_metadata(2)
    world = World(cluster, bootstrap=(1,))
    found = []
    world.session.resolve("fresh", world.now_ms + 60_000, found.append, world.now_ms, create=create)
    world.run()
    assert [type(error) for error in found] == [NotFoundError]
    assert cluster.requests[-1][0] == 2, "what one broker does not know, the controller is asked for"


def test_a_topic_that_is_being_made_is_waited_for():
    cluster = Brokers(1, auto_create_topics=True).form()
    cluster.fault = lambda node, request: (
        UnavailableError("no controller is known") if isinstance(request, GetMetadata) else None
    )
    world = World(cluster)
    found = []
    world.session.resolve("fresh", world.now_ms + 60_000, found.append, world.now_ms, create=True)
    world.pass_ms(20_000)
    assert found == []
    cluster.fault = lambda node, request: None
    world.pass_ms(2_000)
    assert [topic.name for topic in found] == ["fresh"]


def test_closing_ends_the_search_for_a_topic():
    world = World(Brokers(1).form())
    world.silent = {1}
    found = []
    world.session.resolve("fresh", world.now_ms + 5_000, found.append, world.now_ms, create=True)
    world.run()
    world.session.close()
    assert [type(error) for error in found] == [ConnectionClosedError]


def test_back_off_doubles_up_to_its_bound_and_half_of_it_is_chance():
    backoff = Backoff(first_ms=20, most_ms=500)
    error = UnavailableError("no")
    for attempts, whole in [(1, 20), (2, 40), (5, 320), (6, 500), (60, 500)]:
        delays = {backoff.delay_ms(attempts, error, Random(seed)) for seed in range(50)}
        assert whole // 2 <= min(delays)
        assert max(delays) <= whole
        assert len(delays) > 5
