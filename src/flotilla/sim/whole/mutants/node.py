"""Deliberate bugs around the broker: peers, threads, clocks and the connections of clients."""

from functools import partial
from typing import Any, Final

from flotilla.frontends.tcp.connection import Connection
from flotilla.peers.connection import PeerConnection
from flotilla.peers.link import PeerLink
from flotilla.runtime.io_thread import IoThread
from flotilla.sim.whole.mutants.mutant import WholeMutant


def _do(thread: IoThread[Any], item: Any) -> None:
    thread.do(item)


def _report_before_writing(original: Any) -> Any:
    def submit(self: IoThread[Any], item: Any) -> None:
        assert self._lane is not None
        assert self._loop is not None
        self._pending_count += 1
        self._lane.put(partial(_do, self, item))
        self._outcomes.append((item, None))
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._deliver)

    return submit


def _dial_once(original: Any) -> Any:
    return lambda self: None


def _check_nothing(original: Any) -> Any:
    return lambda self: None


def _keep_requests_of_the_dead(original: Any) -> Any:
    def finish(self: Connection, reason: str) -> None:
        self._tickets = dict.fromkeys(self._tickets)
        original(self, reason)

    return finish


MUTANTS: Final = (
    WholeMutant(
        "report-before-writing",
        "a journal write is reported before it is done",
        ((IoThread, "submit", _report_before_writing),),
        ("log",),
        ("blackout", "power", "power-in-write"),
        60,
    ),
    WholeMutant(
        "dial-once",
        "a lost peer is never dialled again",
        ((PeerLink, "_dial_later", _dial_once),),
        ("log",),
        ("kill", "cut", "isolate"),
    ),
    WholeMutant(
        "half-open-peers",
        "a link to a peer that is gone without a word stays open",
        ((PeerConnection, "check", _check_nothing),),
        ("log",),
        ("power", "power-in-write"),
    ),
    WholeMutant(
        "requests-of-the-dead",
        "requests of a lost connection go on",
        ((Connection, "finish", _keep_requests_of_the_dead),),
        ("queue",),
        (),
        60,
    ),
)
