"""Members come and go, and partitions change hands one owner at a time."""

from dataclasses import dataclass
from random import Random

import pytest

from flotilla.metadata import stream_groups
from flotilla.metadata.assignment import NO_OWNER
from flotilla.metadata.snapshot import decode_snapshot, encode, freeze
from flotilla.metadata.state import ClusterState
from flotilla.metadata.stream_groups import GroupMember, Share, StreamGroupTable
from flotilla.types.errors import InvalidArgumentError, OverloadedError
from flotilla.types.operations.stream import ROUND_ROBIN, STICKY, Owned

TOPIC = 7


@dataclass
class Group:
    """One group, spoken to in short."""

    table: StreamGroupTable
    partitions: int = 4
    now_ms: int = 1_000

    def join(self, member, strategy="", session_ms=0, name="g"):
        self.table.check_join(TOPIC, name, GroupMember(member, "c"), strategy, session_ms)
        return self.table.join(
            TOPIC,
            name,
            GroupMember(member, "c"),
            strategy,
            session_ms,
            partition_count=self.partitions,
            now_ms=self.now_ms,
        )

    def leave(self, *members):
        return self.table.remove(TOPIC, "g", members, "left", self.now_ms)

    def release(self, member, *partitions, generation=None):
        generation = self.group.generation if generation is None else generation
        return self.table.release(TOPIC, "g", member, generation, partitions)

    @property
    def group(self):
        return self.table.find(TOPIC, "g")

    @property
    def owners(self):
        return [share.owner for share in self.group.shares]

    @property
    def targets(self):
        return [share.target for share in self.group.shares]

    @property
    def epochs(self):
        return [share.epoch for share in self.group.shares]


@pytest.fixture
def group():
    return Group(StreamGroupTable())


def test_the_first_member_owns_everything_at_once(group):
    joined = group.join("a", ROUND_ROBIN, 5_000)
    assert (joined.strategy, joined.session_ms, joined.generation) == (ROUND_ROBIN, 5_000, 1)
    assert joined.assignments() == {"a": [Owned(number, 1) for number in range(4)]}
    assert (joined.cause, joined.moved, joined.rebalanced_at_ms) == ("a joined", 4, 1_000)


def test_only_the_first_member_decides_the_settings_of_the_group(group):
    group.join("a")
    assert (group.group.strategy, group.group.session_ms) == (STICKY, 30_000)
    joined = group.join("b", ROUND_ROBIN, 5_000)
    assert (joined.strategy, joined.session_ms) == (STICKY, 30_000)
    group.leave("a", "b")
    joined = group.join("c", ROUND_ROBIN, 5_000)
    assert (joined.strategy, joined.session_ms) == (ROUND_ROBIN, 5_000)
    group.leave("c")
    assert group.join("d").strategy == ROUND_ROBIN


def test_joining_again_changes_nothing(group):
    first = group.join("a")
    assert group.join("a") is first


def test_a_newcomer_waits_until_it_is_given_its_share(group):
    group.join("a")
    joined = group.join("b")
    assert group.owners == ["a"] * 4
    assert group.targets == ["a", "a", "b", "b"]
    assert joined.assignments() == {"a": [Owned(0, 1), Owned(1, 1)], "b": []}
    released = group.release("a", 2)
    assert released.generation == 3
    assert released.shares == (Share("a", 1, "a"), Share("a", 1, "a"), Share("b", 3, "b"), Share("a", 1, "b"))
    assert group.release("a", 3).assignments()["b"] == [Owned(2, 3), Owned(3, 4)]


def test_partitions_of_a_member_that_left_go_to_others_at_once_and_no_others_move(group):
    group.join("a")
    group.join("b")
    group.release("a", 2, 3)
    left = group.leave("b")
    assert group.owners == ["a"] * 4
    assert group.epochs == [1, 1, 4, 4]
    assert (left.cause, left.moved) == ("b left", 2)


def test_many_leavers_make_one_generation(group):
    for member in "abcde":
        group.join(member)
    generation = group.group.generation
    left = group.leave("a", "b", "c", "d", "absent")
    assert left.generation == generation + 1
    assert left.cause == "a, b, c and 1 more left"
    assert group.owners == ["e"] * 4


def test_the_last_one_leaves_an_empty_group(group):
    group.join("a")
    group.leave("a")
    assert group.owners == group.targets == [NO_OWNER] * 4
    assert group.group.assignments() == {}
    assert group.join("b").assignments() == {"b": [Owned(number, 3) for number in range(4)]}


def test_unknown_members_are_skipped(group):
    joined = group.join("a")
    assert group.leave("b") is joined
    assert group.release("b", 1) is joined
    assert group.table.remove(TOPIC, "other", ("a",), "left", 1) is None
    assert group.table.release(TOPIC, "other", "a", 1, (0,)) is None


@pytest.mark.parametrize(
    ("generation", "released"),
    [(0, ()), (1, (2,)), (2, (2,))],
    ids=["before it got it", "when it got it", "when it had to release it"],
)
def test_a_member_releases_only_partitions_that_it_knew_of(group, generation, released):
    group.join("a")
    group.join("b")
    before = group.group
    assert before.given_up("a", generation, [0, 1, 3]) == released
    after = group.release("a", 2, generation=generation)
    assert (after is not before) == bool(released)


def test_a_partition_that_stays_and_was_never_released_keeps_its_epoch(group):
    group.join("a")
    group.join("b")
    group.leave("b")
    assert group.group.assignments() == {"a": [Owned(number, 1) for number in range(4)]}


def test_a_released_partition_that_stays_gets_a_new_epoch(group):
    """What it said of that is not believed any more when it comes again."""
    group.join("a")
    group.join("b")
    group.leave("b")
    assert group.group.given_up("a", 2, [0, 1]) == (2, 3)
    again = group.release("a", 2, 3, generation=2)
    assert again.assignments() == {"a": [Owned(0, 1), Owned(1, 1), Owned(2, 4), Owned(3, 4)]}
    group.join("c")
    before = group.group
    assert group.targets == ["a", "a", "c", "c"]
    assert group.release("a", 2, 3, generation=2) is before, "said before it got them again"
    assert group.release("a", 2, 3, generation=5) is not before


def test_more_partitions_are_shared_out(group):
    group.join("a")
    group.join("b")
    group.release("a", 2, 3)
    group.table.grow(TOPIC, 7, 2_000)
    assert group.owners[:4] == ["a", "a", "b", "b"]
    assert group.epochs == [1, 1, 3, 3, 4, 4, 4]
    assert (group.group.cause, group.group.moved) == ("the topic grew from 4 to 7 partitions", 3)
    before = group.group
    group.table.grow(TOPIC, 7, 3_000)
    assert group.group is before


def test_a_group_without_members_grows_too(group):
    group.join("a")
    group.leave("a")
    group.table.grow(TOPIC, 6, 2_000)
    group.partitions = 6
    assert group.join("b").assignments()["b"] == [Owned(number, 4) for number in range(6)]


def test_generations_go_on_when_a_group_was_forgotten(group):
    group.join("a")
    group.join("b")
    group.table.drop_topic(TOPIC)
    assert group.group is None
    assert group.join("a").generation == 3


def test_a_group_without_members_makes_room(group, monkeypatch):
    monkeypatch.setattr(stream_groups, "GROUP_COUNT_MAX", 2)
    group.join("a", name="first")
    group.join("a", name="second")
    with pytest.raises(OverloadedError):
        group.join("a", name="third")
    group.table.remove(TOPIC, "first", ("a",), "left", 1)
    assert group.join("a", name="third").generation == 3
    assert [known.name for known in group.table.groups_of(TOPIC)] == ["second", "third"]


@pytest.mark.parametrize(
    ("member", "client", "strategy", "session_ms", "name"),
    [
        ("", "c", "", 0, "g"),
        ("m" * 257, "c", "", 0, "g"),
        ("m\n", "c", "", 0, "g"),
        ("m", "c" * 257, "", 0, "g"),
        ("m", "c\x00", "", 0, "g"),
        ("m", "c", "best", 0, "g"),
        ("m", "c", "", 999, "g"),
        ("m", "c", "", 1_800_001, "g"),
        ("m", "c", "", 0, "../g"),
    ],
)
def test_bad_members_are_refused(group, member, client, strategy, session_ms, name):
    with pytest.raises(InvalidArgumentError):
        group.table.check_join(TOPIC, name, GroupMember(member, client), strategy, session_ms)


def test_a_group_has_only_so_many_members(group, monkeypatch):
    monkeypatch.setattr(stream_groups, "MEMBER_COUNT_MAX", 3)
    for member in "abc":
        group.join(member)
    with pytest.raises(OverloadedError):
        group.join("d")
    group.join("b")


class Walk:
    """Anything may happen in any order; members say what they use, also late, and partitions keep one owner each."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.group = Group(StreamGroupTable(), partitions=3)
        self.group.join("a", self.random.choice([STICKY, ROUND_ROBIN]))
        #: The last answer to each member: generation and partitions with epochs.
        self.answered = {"a": (0, [])}
        #: What was ever said, and may come again at any time.
        self.said = [("a", 0, [])]
        #: The owner of each partition under each epoch.
        self.owner_of = {}
        self.generation = 0

    def step(self):
        steps = (self.join, self.leave, self.say, self.say_again, self.grow, self.restore)
        self.random.choices(steps, (15, 10, 40, 34, 0.1, 1))[0]()
        self.check()

    def join(self):
        member = self.random.choice("abcd")
        self.group.join(member)
        self.answered.setdefault(member, (0, []))

    def leave(self):
        for member in self.random.sample("abcd", self.random.choice((1, 1, 2))):
            self.group.leave(member)
            self.answered.pop(member, None)

    def say(self):
        """A heartbeat and its answer. Partitions that are not in the answer are not used from then on."""
        if self.answered:
            member = self.random.choice(sorted(self.answered))
            said = (member, *self.answered[member])
            self.said.append(said)
            self.heartbeat(*said)
            group = self.group.group
            self.answered[member] = (group.generation, group.assignments()[member])

    def say_again(self):
        """A heartbeat that was lost on its way comes late, or comes twice."""
        self.heartbeat(*self.random.choice(self.said[-20:]))

    def heartbeat(self, member, generation, owned):
        group = self.group.group
        given_up = group.given_up(member, generation, [partition for partition, _ in owned])
        _, used = self.answered.get(member, (0, []))
        for number in given_up:
            assert Owned(number, group.shares[number].epoch) not in used, "taken from a member that uses it"
        self.group.release(member, *given_up, generation=generation)

    def grow(self):
        self.group.partitions += 1
        self.group.table.grow(TOPIC, self.group.partitions, 1)

    def restore(self):
        state = ClusterState()
        state.streams = self.group.table
        restored = decode_snapshot(encode(freeze(0, state)))[1].streams
        assert restored.topics == self.group.table.topics
        assert restored.forgotten_generation == self.group.table.forgotten_generation
        self.group.table = restored

    def check(self):
        group = self.group.group
        assert group.generation >= self.generation
        self.generation = group.generation
        members = {member.name for member in group.members}
        assert len(group.shares) == self.group.partitions
        for number, (owner, epoch, target) in enumerate(group.shares):
            assert epoch <= group.generation
            if members:
                assert {owner, target} <= members
            else:
                assert owner == target == NO_OWNER
            assert self.owner_of.setdefault((number, epoch), owner) == owner, "two owners in one generation"
        shares = [self.group.targets.count(member) for member in sorted(members)] or [0]
        assert max(shares) - min(shares) <= 1

    def end(self):
        """When every member has released what it must, every partition is with its target."""
        for member in sorted(self.answered):
            group = self.group.group
            self.heartbeat(member, group.generation, group.assignments()[member])
        assert self.group.owners == self.group.targets


@pytest.mark.parametrize("seed", range(6))
def test_any_walk_keeps_one_owner_for_each_partition(seed):
    walk = Walk(seed)
    for _ in range(2_000):
        walk.step()
    walk.end()
