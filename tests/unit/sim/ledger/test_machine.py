"""The replicated list: positions, digests, snapshots."""

from flotilla.raft.messages import DATA, Entry
from flotilla.sim.ledger.machine import Ledger, command, fold


def ledger_of(*identities: int) -> Ledger:
    ledger = Ledger()
    for index, identity in enumerate(identities, start=1):
        assert ledger.apply(Entry(index, 1, DATA, command(identity, padding_bytes=index))) == index - 1
    return ledger


def test_read_returns_length_and_digest() -> None:
    assert Ledger().read(None) == (0, 0)
    assert ledger_of(5, 6).read(None) == (2, fold(fold(0, 5), 6))


def test_digest_depends_on_order_and_content() -> None:
    assert len({ledger_of(*ids).digest for ids in [(), (1,), (1, 2), (2, 1), (1, 2, 3), (1, 1)]}) == 6


def test_snapshot_and_restore() -> None:
    restored = Ledger()
    restored.restore(ledger_of(9, 8, 7).snapshot())
    assert restored.commands.tolist() == [9, 8, 7]
    assert restored.read(None) == ledger_of(9, 8, 7).read(None)
    restored.apply(Entry(4, 1, DATA, memoryview(command(6))))
    assert restored.read(None) == ledger_of(9, 8, 7, 6).read(None)
    restored.restore(b"")
    assert restored.read(None) == (0, 0)
