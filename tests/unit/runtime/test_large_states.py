"""Large states are encoded, decoded and freed on other threads than the loop's."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from flotilla.replica.stored_state import StoredState
from flotilla.sim.ledger.machine import Ledger
from flotilla.types.errors import FlotillaError
from flotilla.types.snapshot_data import SnapshotData
from tests.unit.runtime.test_node import GROUP, Cluster, propose, run


def test_a_large_state_is_encoded_decoded_and_freed_on_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, int] = {}
    frozen = Ledger.freeze

    def freeze(ledger: Ledger) -> Callable[[], Iterable[bytes]]:
        encode = frozen(ledger)

        def encoded() -> Iterable[bytes]:
            threads["encodes"] = threading.get_ident()
            return encode()

        return encoded

    # Of the replica that takes the snapshot.
    monkeypatch.setattr(Ledger, "freeze", freeze)

    class LargeLedger(Ledger):
        def decode(self, data: SnapshotData) -> object:
            threads["decodes"] = threading.get_ident()
            return super().decode(data)

    def remains() -> Iterator[None]:
        threads["frees"] = threading.get_ident()
        yield
        freed.set()

    freed = threading.Event()

    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await propose(node, 1)
        node.snapshot(GROUP)
        while cluster.stores[1].groups[GROUP].snapshot() is None:
            await asyncio.sleep(0.002)
        loaded: asyncio.Future[StoredState | FlotillaError] = asyncio.get_running_loop().create_future()
        assert node.driver.preload(GROUP, LargeLedger(), loaded.set_result)
        state = await loaded
        assert isinstance(state, StoredState)
        assert state.snapshot is not None
        node.discard(remains())
        while not freed.is_set():
            await asyncio.sleep(0.002)
        # Its end is reported to nobody.
        assert await propose(node, 2) == 1
        assert threads.keys() == {"encodes", "decodes", "frees"}
        assert threading.get_ident() not in threads.values()

    run(tmp_path, (1,), scenario)
