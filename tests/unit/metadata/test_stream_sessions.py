"""Members without a heartbeat for a whole session are silent, and no member is before it had a session."""

from dataclasses import replace

import pytest

from flotilla.metadata.stream_groups import GroupMember, StreamGroup
from flotilla.metadata.stream_sessions import GAP_MS_MAX, RENEWAL_MS, StreamSessions


def group(*members, name="g", session_ms=5_000):
    return StreamGroup(1, name, "sticky", session_ms, members=tuple(GroupMember(member, "") for member in members))


class Coordinator:
    def __init__(self, *groups):
        self.now_ms = 100_000
        self.groups = list(groups)
        self.sessions = StreamSessions(self.now_ms)
        self.silent()

    def silent(self):
        return {
            (found.name, member)
            for found, members in self.sessions.silent(self.groups, self.now_ms)
            for member in members
        }

    def advance(self, ms):
        """Looking as often as it must."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + 500, end_ms)
            found = self.silent()
        return found

    def heard(self, *members):
        for member in members:
            self.sessions.heard(self.groups[0], member, self.now_ms)


def test_a_new_leader_gives_each_member_a_whole_session():
    here = Coordinator(group("a", "b"), group("c", name="h", session_ms=10_000))
    assert here.advance(4_999) == set()
    assert here.advance(1) == {("g", "a"), ("g", "b")}
    assert here.advance(5_000) == {("g", "a"), ("g", "b"), ("h", "c")}


def test_a_member_with_heartbeats_is_not_silent():
    here = Coordinator(group("a", "b", "c"))
    here.advance(3_000)
    here.heard("a")
    here.advance(1_000)
    here.heard("c")
    assert here.advance(1_000) == {("g", "b")}
    assert here.advance(3_000) == {("g", "a"), ("g", "b")}
    here.heard("a")
    assert here.advance(1_000) == {("g", "b"), ("g", "c")}


def test_new_members_get_a_session_and_members_that_left_are_dropped():
    here = Coordinator(group("a", "b"))
    here.advance(4_000)
    here.groups = [group("b", "c")]
    assert here.advance(1_000) == {("g", "b")}
    assert here.advance(3_500) == {("g", "b")}
    assert here.advance(1_000) == {("g", "b"), ("g", "c")}
    here.groups = [group("c", "a")]
    assert here.advance(500) == {("g", "c")}


def test_a_group_without_members_is_never_silent():
    here = Coordinator(group())
    assert here.advance(20_000) == set()
    here.groups = [group("a")]
    assert here.advance(4_500) == set()


@pytest.mark.parametrize("gap_ms", [GAP_MS_MAX + 1, 3_600_000])
def test_a_leader_that_was_paused_gives_every_member_another_session(gap_ms):
    here = Coordinator(group("a"))
    here.advance(4_500)
    here.now_ms += gap_ms
    assert here.silent() == set()
    assert here.advance(4_500) == set()
    assert here.advance(500) == {("g", "a")}


def test_the_age_of_the_last_heartbeat():
    here = Coordinator(group("a", "b"))
    here.advance(1_500)
    here.heard("a")
    here.advance(1_000)
    ages_ms = [here.sessions.heard_ms_ago(here.groups[0], member, here.now_ms) for member in "ab"]
    assert ages_ms == [1_000, 2_500]


def test_a_stranger_is_not_taken_in():
    here = Coordinator(group("a"))
    here.heard("stranger")
    here.groups = [replace(here.groups[0], members=())]
    assert here.advance(10_000) == set()


def test_renewals_of_a_member_are_limited():
    here = Coordinator(group("a", "b"))
    [found] = here.groups
    assert here.sessions.until_renewal_ms(found, "a", here.now_ms) == 0
    here.sessions.renewed(found, "a", here.now_ms)
    here.advance(RENEWAL_MS - 1)
    assert here.sessions.until_renewal_ms(found, "a", here.now_ms) == 1
    assert here.sessions.until_renewal_ms(found, "b", here.now_ms) == 0
    here.advance(1)
    assert here.sessions.until_renewal_ms(found, "a", here.now_ms) == 0
