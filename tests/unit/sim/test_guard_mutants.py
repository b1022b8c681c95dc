"""Deliberate bugs in what guards stored data, links and placement, and a test of the part itself that catches each.

The same as `test_state_mutants.py`, for guards that a simulated cluster needs in rare runs only: a restored backup, a
sector that rots, a peer that is silent while a cluster is founded, a broker that is silent while a client waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flotilla.broker.cluster import balance
from flotilla.broker.cluster.founding import PeerAnswer
from flotilla.broker.cluster.move_plans import MovePlans
from flotilla.broker.metadata_reads import MetadataReads
from flotilla.client._core.seen_metadata import SeenMetadata
from flotilla.client._core.session import Session
from flotilla.codec.two_copies import Copies
from flotilla.peers import handshake
from flotilla.peers.link import PeerLink
from flotilla.raft import farewell
from flotilla.runtime import data_dir_identity
from flotilla.runtime.descriptors import LIMIT_MIN
from flotilla.sim.mutants.replacement import Replacement, replaced
from flotilla.storage.block import PendingBlock, has_all_bodies
from flotilla.storage.journal import Journal
from flotilla.storage.reads import journal_load
from flotilla.storage.reads.scrubber import Scrubber
from tests.unit.broker import test_metadata_reads as metadata_reads
from tests.unit.broker.cluster import test_balance as leader_balance
from tests.unit.broker.cluster import test_founding as founding
from tests.unit.broker.cluster import test_moves as moves
from tests.unit.client.core import test_long_polls as long_polls
from tests.unit.client.core import test_seen_metadata as seen_metadata
from tests.unit.peers import harness
from tests.unit.peers import test_containment as links
from tests.unit.peers import test_handshake as hellos
from tests.unit.raft import test_farewell as farewells
from tests.unit.runtime import test_data_dir_identity as identities
from tests.unit.runtime import test_descriptors as descriptors
from tests.unit.runtime import test_scrubbing as scrubbing
from tests.unit.storage import test_journal_files as journal_files
from tests.unit.storage import test_journal_scrubbing as journal_scrubbing
from tests.unit.storage import test_rot as rot
from tests.unit.storage import test_salt as salt


def _found_without_silent(original: Any) -> Any:
    """A cluster is founded although a named peer does not answer."""
    return lambda answers: original({node: answer for node, answer in answers.items() if answer is not None})


def _found_a_second(original: Any) -> Any:
    """A cluster is founded although a peer is part of one."""

    def as_ours(answer: PeerAnswer | None) -> PeerAnswer | None:
        return answer and replace(answer, founded_with_us=True)

    return lambda answers: original({node: as_ours(answer) for node, answer in answers.items()})


def _any_store(original: Any) -> Any:
    """Any store belongs to any identity."""
    return lambda folder, identity: ""


def _never_older(original: Any) -> Any:
    """A restored backup of a member is let in."""
    return lambda known, hello: False


def _prove_from_the_start(original: Any) -> Any:
    """The first block after recovery proves the one before it, which this process has not synced."""

    def init(self: Journal, *arguments: Any) -> None:
        original(self, *arguments)
        self._has_synced = True

    return init


def _keep_late_dials(original: Any) -> Any:
    """A dial that succeeds as its time runs out leaves a connection that is closed, and no other one is dialled."""

    async def dial(self: PeerLink) -> None:
        try:
            await self._connect()
        except TimeoutError:
            if self._connection is None:
                self._dial_later()
        finally:
            self._dialling = None

    return dial


def _fill_nothing(original: Any) -> Any:
    """A partition with too few replicas stays as it is."""
    return lambda self: {}


def _do_nothing(original: Any) -> Any:
    """No ping, no farewell, no snapshot."""
    return lambda *arguments: None


def _stay_at_old_leaders(original: Any) -> Any:
    """A long poll goes on at a broker that another one has replaced."""
    return lambda self: self.routes.moved.clear()


def _any_difference(original: Any) -> Any:
    """Leadership moves for a single partition."""
    return lambda lead, *, is_returning: lead.own > lead.other


def _tell_too_early(original: Any) -> Any:
    """A removed member hears that its removal is committed as soon as it has the entry."""
    return lambda node, departure: departure.match >= departure.index


def _overlook(original: Any) -> Any:
    """Damage is counted, and nothing follows from it."""

    def finish(self: Scrubber, *arguments: Any, **named: Any) -> bool:
        original(self, *arguments, **named)
        return False

    return finish


def _skip_quietly(original: Any) -> Any:
    """What could not be read counts as read."""

    def finish(self: Scrubber, *arguments: Any, **named: Any) -> bool:
        before = self.skipped
        is_damaged: bool = original(self, *arguments, **named)
        self.skipped = before
        return is_damaged

    return finish


def _one_copy_will_do(original: Any) -> Any:
    """The scrubber takes a configuration with one intact copy for intact."""
    return has_all_bodies


def _store_once(original: Any) -> Any:
    """Configurations are stored once."""
    return lambda self, head, kind, body: original(self, head, 0, body)


def _mend_nothing(original: Any) -> Any:
    """A damaged copy of a small file stays damaged."""
    return lambda self: []


def _promise_too_much(original: Any) -> Any:
    """Clients may use the descriptors of all others."""
    return lambda limit, **named: replace(original(limit, **named), clients=limit)


def _go_back(original: Any) -> Any:
    """The index of the metadata follows the last answer."""

    def note(self: SeenMetadata, index: int) -> None:
        self.index = index

    return note


def _never_forget(original: Any) -> Any:
    """An index of another cluster is kept."""

    def joined(self: SeenMetadata, cluster_id: str) -> None:
        self.cluster_id = cluster_id

    return joined


def _reach_at_once(original: Any) -> Any:
    """A node answers with the metadata that it has."""
    return lambda self, index, done: self._outside.later(0, lambda: done(None))


def _confirm_at_once(original: Any) -> Any:
    """A node takes what it knows for the newest."""
    return lambda self, done: self._outside.later(0, lambda: done(None))


def _dial_late(patch: pytest.MonkeyPatch) -> None:
    """What must happen takes milliseconds; the deadline is for the mutant, with which it never does."""

    async def bounded(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await asyncio.wait_for(test(), 1)
        finally:
            while harness._networks:
                harness._networks.pop().close()
            await asyncio.sleep(0)

    patch.setattr(links, "run", lambda test: asyncio.run(bounded(test)))
    links.test_a_dial_that_succeeds_as_its_time_runs_out_is_forgotten_at_once(patch)


#: What takes whose place, and the test that must fail then.
MUTANTS: dict[str, tuple[Replacement, Callable[[], None]]] = {
    "found-without-silent": (
        (founding, "judge_founding", _found_without_silent),
        founding.test_a_silent_peer_may_hold_the_data,
    ),
    "found-a-second": (
        (founding, "judge_founding", _found_a_second),
        lambda: founding.test_one_peer_that_knows_the_cluster_forbids_another_one(founding.MEMBER, founding.EMPTY),
    ),
    "never-older": (
        (handshake, "_is_older", _never_older),
        lambda: hellos.test_hellos_and_their_decisions(replace(hellos.GOOD, data=5, starts=6), handshake.REFUSED_OLDER),
    ),
    "fill-nothing": ((MovePlans, "_filling", _fill_nothing), moves.test_missing_replicas_are_added_when_brokers_join),
    "never-ping": (
        (Session, "_ping", _do_nothing),
        long_polls.test_a_long_poll_leaves_a_silent_broker_as_soon_as_another_call_does,
    ),
    "wait-at-old-leaders": (
        (Session, "_follow_leaders", _stay_at_old_leaders),
        long_polls.test_a_long_poll_ends_at_a_broker_that_another_one_replaced,
    ),
    "any-difference": ((balance, "is_uneven", _any_difference), leader_balance.test_a_small_difference_moves_nothing),
    "no-farewell": (
        (farewell, "begin", _do_nothing),
        farewells.test_a_removed_member_knows_that_it_is_out_and_the_leader_forgets_it,
    ),
    "farewell-too-early": ((farewell, "_is_over", _tell_too_early), farewells.test_its_acknowledgement_does_not_count),
    "scrub-no-snapshots": (
        (Scrubber, "_of_snapshots", _do_nothing),
        scrubbing.test_a_damaged_snapshot_is_replaced_by_a_new_one,
    ),
    "scrub-and-overlook": (
        (Scrubber, "finish_journal", _overlook),
        lambda: journal_scrubbing.test_damage_in_the_file_that_is_written_is_gone_before_a_start_meets_it(b"3 1 3."),
    ),
    "scrub-and-skip": (
        (Scrubber, "finish", _skip_quietly),
        scrubbing.test_a_file_that_cannot_be_read_is_left_to_the_next_pass,
    ),
    "scrub-one-copy": (
        (journal_load, "has_all_copies", _one_copy_will_do),
        lambda: journal_scrubbing.test_a_bad_copy_of_a_configuration_is_found_before_the_other_one_is_bad(0),
    ),
    "configurations-once": (
        (PendingBlock, "add", _store_once),
        lambda: rot.test_no_bad_sector_costs_a_configuration(is_marked=False),
    ),
    "prove-from-the-start": (
        (Journal, "__init__", _prove_from_the_start),
        journal_files.test_the_first_block_after_recovery_proves_nothing,
    ),
    "mend-nothing": (
        (Copies, "patches", _mend_nothing),
        lambda: salt.test_either_sector_of_the_format_may_be_lost(0),
    ),
    "descriptors-twice": (
        (descriptors, "budget_descriptors", _promise_too_much),
        lambda: descriptors.test_the_shares_fit_into_the_limit_and_none_is_empty(LIMIT_MIN, 256, has_grpc=True),
    ),
    "metadata-go-back": ((SeenMetadata, "note", _go_back), seen_metadata.test_an_index_of_another_cluster_is_forgotten),
    "metadata-of-another": (
        (SeenMetadata, "joined", _never_forget),
        seen_metadata.test_an_index_of_another_cluster_is_forgotten,
    ),
    "reach-at-once": (
        (MetadataReads, "reach", _reach_at_once),
        metadata_reads.test_a_node_that_is_behind_asks_its_leader_and_answers_without_waiting_for_time,
    ),
    "confirm-at-once": (
        (MetadataReads, "confirm", _confirm_at_once),
        metadata_reads.test_a_linearizable_read_shows_all_that_was_acknowledged_to_others,
    ),
}


#: The same for tests that need a folder, or change the world around them.
WITH_FOLDER: dict[str, tuple[Replacement, Callable[[Path, pytest.MonkeyPatch], None]]] = {
    "any-store": (
        (data_dir_identity, "store_problem", _any_store),
        lambda folder, _: identities.test_a_store_that_is_older_than_its_identity_is_refused(folder),
    ),
    "keep-late-dials": (
        (PeerLink, "_dial", _keep_late_dials),
        lambda _, patch: _dial_late(patch),
    ),
}

#: Those that simulate a cluster for long, or wait for a deadline.
_SLOW = ("any-difference", "fill-nothing", "keep-late-dials")


def _row(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow) if name in _SLOW else name


_CAUGHT = (AssertionError, KeyError, TimeoutError, pytest.fail.Exception)


@pytest.mark.parametrize("name", [_row(name) for name in MUTANTS])
def test_caught(name: str) -> None:
    replacement, test = MUTANTS[name]
    test()
    with replaced([replacement]), pytest.raises(_CAUGHT):
        test()


@pytest.mark.parametrize("name", [_row(name) for name in WITH_FOLDER])
def test_caught_with_a_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replacement, test = WITH_FOLDER[name]
    with replaced([replacement]), pytest.raises(_CAUGHT):
        test(tmp_path, monkeypatch)
