"""The memory of transactions that are over: which way each was decided, for a stated time.

A decision is remembered for REMEMBERED_MS after the transaction was over in all partitions. Beyond DECISION_COUNT_MAX
decisions the oldest are forgotten earlier. Either way the memory says so: `forgotten_ms` is a high-water mark, and
every forgotten transaction began at or before it. So a request about a transaction that began later can be answered,
and any other one is refused instead of guessed at (`transactions`).

Times are kept for blocks of decisions, not for each: one entry costs about 200 bytes.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final, NamedTuple

#: The horizon of decisions. Longer than any transaction may wait (TRANSACTION_TIMEOUT_MS_MAX).
REMEMBERED_MS: Final = 3_600_000
#: Bounds the memory of all replicas: 277 decisions a second for an hour, 1,100 a second for 15 minutes, or two minutes
#: of the 7,600 a second that the leader of the metadata decides with one processor (0.13 ms each, measured).
DECISION_COUNT_MAX: Final = 1_000_000
#: How much the clocks of the leaders of a partition and of the metadata may differ: a transaction can seem to have
#: begun after its decision.
CLOCK_DIFFERENCE_MS_MAX: Final = 60_000
#: The mark of a new memory. A commit whose transaction is said to have begun then finds a decision that was made, and
#: never makes one.
FORGOTTEN_MS_MIN: Final = 1
#: Decisions that ended within this time are forgotten together.
_BLOCK_MS: Final = 10_000
#: Bounds the work of one decision.
_FORGOTTEN_AT_ONCE: Final = 256


class Block(NamedTuple):
    """Decisions that follow each other in the memory."""

    #: All of them were added before this time.
    end_ms: int
    length: int


class FrozenDecisions(NamedTuple):
    """A memory as it was when the view was taken. Any thread may read it."""

    forgotten_ms: int
    blocks: tuple[Block, ...]
    kinds: Mapping[str, int]


class DecisionMemory:
    __slots__ = ("_blocks", "_kinds", "forgotten_ms")

    def __init__(self) -> None:
        #: In the order of their end. Keys are never moved; not a plain dict, whose first key is slow to find after
        #: deletions.
        self._kinds: OrderedDict[str, int] = OrderedDict()
        #: End and length of each (`Block`). The lengths of all add up to the decisions.
        self._blocks: deque[list[int]] = deque()
        #: Whatever is forgotten began at this time or before. Never falls.
        self.forgotten_ms = FORGOTTEN_MS_MIN

    def __len__(self) -> int:
        return len(self._kinds)

    def get(self, transaction_id: str) -> int | None:
        """The kind that was added."""
        return self._kinds.get(transaction_id)

    def add(self, transaction_id: str, kind: int, now_ms: int) -> None:
        """`kind` is a small number that says how it was decided."""
        self._kinds[transaction_id] = kind
        blocks = self._blocks
        if blocks and now_ms < blocks[-1][0]:
            blocks[-1][1] += 1
        else:
            blocks.append([now_ms - now_ms % _BLOCK_MS + _BLOCK_MS, 1])
        self.trim(now_ms)

    def trim(self, now_ms: int) -> None:
        """Forgets what is beyond the horizon, a bounded part of it."""
        kinds = self._kinds
        for _ in range(_FORGOTTEN_AT_ONCE):
            if not kinds:
                return
            oldest = self._blocks[0]
            if now_ms - oldest[0] < REMEMBERED_MS and len(kinds) <= DECISION_COUNT_MAX:
                return
            self.forgotten_ms = max(self.forgotten_ms, oldest[0] + CLOCK_DIFFERENCE_MS_MAX)
            kinds.popitem(last=False)
            oldest[1] -= 1
            if not oldest[1]:
                self._blocks.popleft()

    def freeze(self) -> FrozenDecisions:
        # Keys are never moved, so the dict below an OrderedDict has its order; copying that is ten times as fast.
        blocks = tuple([Block(*block) for block in self._blocks])
        return FrozenDecisions(self.forgotten_ms, blocks, dict.copy(self._kinds))

    def put(self, frozen: FrozenDecisions) -> None:
        """Restores an empty memory."""
        assert sum([block.length for block in frozen.blocks]) == len(frozen.kinds), "blocks and decisions differ"
        self.forgotten_ms = frozen.forgotten_ms
        self._blocks.extend([list(block) for block in frozen.blocks])
        self._kinds.update(frozen.kinds)
