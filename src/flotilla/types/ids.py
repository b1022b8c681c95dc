"""Names for the integers that travel through every layer.

They are plain ints at run time, so that the hot path pays nothing; the aliases keep signatures readable.
An *index* is a position in a Raft log, an *offset* a position in a partition: never mix them.
"""

from typing import TypeAlias

NodeId: TypeAlias = int
GroupId: TypeAlias = int
Term: TypeAlias = int
Index: TypeAlias = int
Offset: TypeAlias = int

#: No node: no vote cast, no leader known. Real node ids start at 1.
NO_NODE: NodeId = 0
#: Ids, terms and positions count up from 0 and never get beyond it: a larger one is forged or damaged.
NUMBER_MAX = (1 << 63) - 1
