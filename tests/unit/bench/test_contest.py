"""The contestants of a round, and the reasons of the absent ones."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bench.contest import area
from bench.figure import Absence
from bench.options import BenchOptions
from bench.peers import PEERS
from bench.subject import Contestant


class BrokenPeer:
    product = "broken"
    settings: tuple[bool, ...] = (True,)

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return "1.0"

    def started(self, folder: Path, *, nodes: int, is_synced: bool) -> AbstractContextManager[Contestant]:
        raise OSError("does not start")


class AbsentPeer(BrokenPeer):
    product = "absent"
    settings: tuple[bool, ...] = (False, True)

    def missing(self) -> str:
        return "absent-server"


def test_a_peer_that_does_not_sync_runs_once_and_the_order_rotates(tmp_path: Path) -> None:
    options = BenchOptions(tmp_path, peers=("nats", "rabbitmq"))
    first, second = ([(peer.product, is_synced) for peer, is_synced in area.line_up(options, at)] for at in (0, 1))
    assert first == [("flotilla", True), ("nats", True), ("nats", False), ("rabbitmq", True)]
    assert second == [("nats", True), ("rabbitmq", True), ("flotilla", True)]


def test_no_peers_leave_flotilla(tmp_path: Path) -> None:
    assert [peer.product for peer, _ in area.line_up(BenchOptions(tmp_path, peers=()), 0)] == ["flotilla"]


def test_a_peer_that_is_missing_or_fails_is_reported_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(area, "PEERS", (AbsentPeer(), BrokenPeer()))
    monkeypatch.setattr(area, "FlotillaPeer", BrokenPeer)
    monkeypatch.setattr("bench.contest.course.probes", lambda options: iter(()))
    found = area.measure(BenchOptions(tmp_path, contest_rounds=1))
    absent = [(each.name, each.reason, each.note) for each in found if isinstance(each, Absence)]
    failed = ("broken", "failed in round 1", "OSError: does not start")
    assert absent == [failed, ("absent", "not installed: skipped", "absent needs absent-server"), failed]
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_products_have_names_of_their_own() -> None:
    products = [peer.product for peer in PEERS]
    assert len(set(products)) == len(products)
    assert all(True in peer.settings for peer in PEERS), "each can be held against Flotilla"
