"""The retention hold of an archive: an ordinary group whose committed offset bounds retention.

It moves only to the end of a table, and every file in a table was read back before. So retention never passes the lake,
whatever crashes; the next run moves a hold that is too far back.
"""

from collections.abc import Iterable, Mapping

from flotilla.client.client import Client
from flotilla.lake.offset_range import Partition
from flotilla.lake.runs import Span


class RetentionHold:
    def __init__(self, client: Client, group: str, topics: Iterable[str]) -> None:
        self._client = client
        self._group = group
        self._topics = list(topics)
        #: Committed offsets, as far as this process knows.
        self._committed: dict[Partition, int] = {}

    def begin(self, spans: Mapping[Partition, Span]) -> None:
        """From now on retention keeps everything that is not in the lake."""
        for topic in self._topics:
            self._client.alter_group(topic, self._group, holds_retention=1)
        self.move(spans)

    def move(self, spans: Mapping[Partition, Span]) -> None:
        """Moves to the ends of the lake; a partition without files is held from offset 0."""
        for topic in self._topics:
            for part in self._client.describe_topic(topic).partitions:
                place = (topic, part.number)
                span = spans.get(place)
                if span is not None and self._committed.get(place) != span.end:
                    self._committed[place] = self._client.commit_offset(place[0], self._group, place[1], span.end)
                elif span is None and place not in self._committed:
                    self._committed[place] = self._hold_whole(place)

    def _hold_whole(self, place: Partition) -> int:
        """Holds at 0, not at the oldest record: that could be removed between the request and the commit."""
        known = self._client.committed_offset(place[0], self._group, place[1])
        return known if known is not None else self._client.commit_offset(place[0], self._group, place[1], 0)
