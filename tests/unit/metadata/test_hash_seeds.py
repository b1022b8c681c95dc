"""Two processes that hash differently come to the same state, byte by byte."""

from tests.hash_seeds import HASH_SEEDS, printed

SCRIPT = """
from flotilla.metadata.commands import AlterTopic, DeleteTopic
from flotilla.metadata.move_commands import ResizeTopic, SetIncarnation
from tests.unit.metadata.entries import cluster

log = cluster(5)
for number in range(40):
    log.create(f"topic-{number * 7 % 40}", 3, 3, max_deliveries=2, retention_bytes=number)
for number in range(0, 40, 3):
    log.command(AlterTopic(f"topic-{number}", (("visibility_ms", 900),), ("max_deliveries",), 5, 7))
    log.command(DeleteTopic(f"topic-{number + 1}", 0, 8))
log.command(SetIncarnation(2, 7, True, 9))
log.command(ResizeTopic("topic-2", 5, 9))
print(log.machine.state_hash())
"""


def test_the_state_does_not_depend_on_how_texts_are_hashed():
    (one,), (other,) = [printed(SCRIPT, seed) for seed in HASH_SEEDS]
    assert len(one) == 64
    assert one == other
