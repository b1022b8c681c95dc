"""A process that writes entries through the real store for ever, and prints each index once its block is durable.

Arguments: the data directory, and a seed. At its start it prints `opened N`: what recovery found.
"""

import sys
from random import Random

from flotilla.raft.messages import DATA, Configuration, Entry, HardState
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore

GROUP = 7
OPTIONS = StoreOptions(journal_bytes=256 * 1024, segment_bytes=64 * 1024)


def content(index: int) -> bytes:
    """Different sizes, so that blocks begin and end anywhere in a sector."""
    return b"%d:" % index * (1 + Random(index).randrange(1200))


def open_store(data: str) -> NodeStore:
    return NodeStore.open(PosixDisk(data), OPTIONS, lambda entry: None)


def main(data: str, seed: int) -> None:
    random = Random(seed)
    store = open_store(data)
    if GROUP not in store.groups:
        store.create_group(GROUP, Configuration(voters=(1, 2, 3)))
    log = store.groups[GROUP]
    last = log.last_index()
    while log.damaged.at(last) is not None:
        last -= 1  # Torn by the cut and never acknowledged: it is written again, as a new leader would.
    print("opened", last, flush=True)
    while True:
        first = last + 1
        indexes = range(first, first + random.choice((1, 1, 1, 2, 5)))
        entries = [Entry(index, 1, DATA, content(index)) for index in indexes]
        store.save(GROUP, hard_state=HardState(indexes[-1], 2, 0), entries=entries)
        block = store.take_block()
        assert block is not None
        store.write_block(block)
        store.finish_block(block)
        last = indexes[-1]
        print(last, flush=True)
        job = store.plan_maintenance(flush=random.random() < 0.05)
        if job is not None:
            job.run()
            store.finish_maintenance(job)
        if random.random() < 0.1:
            store.mark_block()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
