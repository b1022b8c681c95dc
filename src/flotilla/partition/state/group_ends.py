"""When groups were deleted: for each name the index of the entry that deleted the group last.

A reader states the index as of which it read its position. Its commit is refused when the group was deleted after that:
the name belongs to another group now, or to none. As many names are remembered as a partition may have groups. Behind
that `floor` is the answer: a position that was read before it counts as one of an earlier life, whatever the name.
"""

from flotilla.types.ids import Index
from flotilla.types.topics import GROUP_COUNT_MAX


class GroupEnds:
    def __init__(self) -> None:
        #: In the order of deletion.
        self.by_name: dict[str, Index] = {}
        #: Of the newest deletion that is not remembered by name.
        self.floor: Index = 0

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def note(self, name: str, index: Index) -> None:
        ends = self.by_name
        ends.pop(name, None)
        ends[name] = index
        if len(ends) > GROUP_COUNT_MAX:
            self.floor = ends.pop(next(iter(ends)))

    def last(self, name: str) -> Index:
        """A position that was read before this entry may be of an earlier group of the name."""
        return max(self.by_name.get(name, 0), self.floor)

    def copy(self) -> "GroupEnds":
        copied = GroupEnds()
        copied.by_name = self.by_name.copy()
        copied.floor = self.floor
        return copied
