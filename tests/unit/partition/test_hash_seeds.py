"""Two processes that hash differently come to the same state, byte by byte."""

from tests.hash_seeds import HASH_SEEDS, printed

SCRIPT = """
from flotilla.partition.commands.partition_commands import CancelRecords, CommitOffset, FailedRun, GroupSettlement
from flotilla.partition.commands.partition_commands import OpenGroup, SettleRuns
from flotilla.partition.queries import ListPositions
from tests.unit.partition.batches import new_log

log = new_log(entries_max=7)
for number in range(40):
    log.append(producer=1 + number % 9, sequence=number // 9)
    log.append(keys=[b"key %d" % (number * 11 % 40), b"other %d" % number], priority=number % 8)
    log.command(CommitOffset(f"group-{number * 7 % 40}", number, number))
    log.command(OpenGroup(f"queue-{number * 7 % 40}", number, number))
    settlements = [
        GroupSettlement(f"queue-{other}", failed=(FailedRun(number, number + 1, number, f"reason {other % 5}"),))
        for other in range(40)
    ]
    log.command(SettleRuns(number, tuple(settlements)))
    log.command(CancelRecords((number * 7 % 40, number), number))
assert list(log.machine.read(ListPositions())) == sorted(log.machine.positions)
print(log.machine.state_hash())
"""


def test_the_state_does_not_depend_on_how_texts_are_hashed():
    (one,), (other,) = [printed(SCRIPT, seed) for seed in HASH_SEEDS]
    assert len(one) == 64
    assert one == other
