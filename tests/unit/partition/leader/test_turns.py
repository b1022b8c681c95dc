"""A group with a single active member: one at a time gets messages, and another one when it is gone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.partition.leader.leases import MEMBER_LIVE_MS
from flotilla.types.operations.queue import ACK, FAIL, RELEASE
from tests.unit.partition.leading import GROUP, Leading


def leading(**rules: int) -> Leading:
    here = Leading()
    here.set(single_active=1, **rules)
    return here


def test_one_member_gets_everything_and_the_others_wait():
    here = leading()
    here.append(3)
    found = here.poll(1, "a")
    assert here.poll(1, "b") == []
    here.settle(found)
    here.flush()
    assert here.poll(1, "b") == [], "the first one is still there"
    assert here.poll(1, "a")


def test_the_first_that_polls_has_its_turn_although_there_is_nothing():
    here = leading()
    assert here.poll(1, "a") == []
    here.append()
    assert here.poll(1, "b") == []
    assert here.poll(1, "a")


def test_another_one_has_its_turn_when_the_active_one_leaves_or_is_lost():
    here = leading()
    here.append(4)
    here.poll(1, "a")
    here.leader.leave(GROUP, "a", here.now_ms)
    assert here.poll(1, "b")
    assert here.leader.release_member("b", here.now_ms, 1_000)
    here.flush()
    assert here.poll(1, "c")
    assert here.poll(1, "b") == []


def test_the_loss_of_an_active_member_without_messages_is_told():
    here = leading()
    here.poll(1, "a")
    here.append()
    assert here.poll(1, "b") == []
    assert here.leader.release_member("a", here.now_ms, 1_000), "others have to be asked again"
    assert here.poll(1, "b")


def test_a_silent_member_keeps_its_turn_as_long_as_it_holds_messages():
    here = leading(visibility_ms=10 * MEMBER_LIVE_MS)
    here.append(2)
    found = here.poll(1, "a")
    here.pass_ms(5 * MEMBER_LIVE_MS)
    assert here.poll(1, "b") == []
    here.settle(found)
    here.flush()
    assert here.poll(1, "b")


def test_a_silent_member_that_holds_nothing_loses_its_turn_in_time():
    here = leading()
    here.poll(1, "a")
    here.append()
    assert here.poll(1, "b") == []
    assert here.leader.next_event_ms(here.now_ms) == here.now_ms + MEMBER_LIVE_MS
    assert here.pass_ms(MEMBER_LIVE_MS), "it is told that others may be asked"
    assert here.poll(1, "b")


def test_after_a_change_of_leaders_nobody_gets_anything_until_leases_were_presented():
    here = leading(visibility_ms=60_000)
    here.append(2)
    found = here.poll(1, "a")
    here.grace_ms = 1_000
    here.change_leader()
    here.append()
    assert here.poll(1, "b") == [], "a new message, but another member may hold some"
    assert here.extend(found, 60_000, "a") == []
    here.pass_ms(1_000)
    assert here.poll(1, "b") == []
    here.settle(found)
    here.flush()
    assert here.poll(1, "a") or here.poll(1, "b")


def test_leases_that_were_handed_over_keep_the_turn():
    here = leading(visibility_ms=60_000)
    here.append(2)
    here.poll(1, "a")
    here.hand_over()
    here.change_leader()
    assert here.poll(1, "b") == []
    assert here.poll(1, "a")


def test_without_the_setting_members_share():
    here = Leading()
    here.append(2)
    assert here.poll(1, "a")
    assert here.poll(1, "b")
    here.set(single_active=1)
    assert here.poll(1, "a") == here.poll(1, "b") == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("poll", "ack", "fail", "release", "leave", "lose", "wait", "append", "flush")),
        st.sampled_from("abc"),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(STEPS)
def test_no_two_members_ever_hold_messages(steps: list[tuple[str, str]]) -> None:
    here = leading(visibility_ms=2_000)
    here.append(5)
    held: dict[str, list] = {}
    kinds = {"ack": ACK, "fail": FAIL, "release": RELEASE}
    for step, member in steps:
        if step == "poll":
            held.setdefault(member, []).extend(here.poll(1, member))
        elif step in kinds:
            here.settle(held.pop(member, []), kinds[step], delay_ms=0)
        elif step == "leave":
            here.leader.leave(GROUP, member, here.now_ms)
        elif step == "lose":
            here.leader.release_member(member, here.now_ms, 1_000)
        elif step == "wait":
            here.pass_ms(1_500)
        elif step == "append":
            here.append()
        else:
            here.flush()
        holders = [info.name for info in here.describe().members if info.leased]
        assert len(holders) <= 1
