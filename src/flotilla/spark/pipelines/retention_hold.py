"""An archive's hold on retention: an ordinary group, whose committed offset says what may go.

It moves only to where the manifest ends, and everything in a manifest was read back before. So whatever crashes,
retention is behind the lake: a hold that was not moved is moved by the next run.
"""

from collections.abc import Iterable, Mapping

from flotilla.client.client import Client
from flotilla.spark.lake.manifest import Partition, Span


class Hold:
    def __init__(self, client: Client, group: str, topics: Iterable[str]) -> None:
        self._client = client
        self._group = group
        self._topics = list(topics)
        #: Where it stands, as far as this process knows.
        self._held: dict[Partition, int] = {}

    def begin(self, spans: Mapping[Partition, Span]) -> None:
        """Nothing of these topics goes from now on that is not in the lake."""
        for topic in self._topics:
            self._client.alter_group(topic, self._group, holds_retention=1)
        self.move(spans)

    def move(self, spans: Mapping[Partition, Span]) -> None:
        """To the ends of the lake; a partition that is not in it yet is held as a whole."""
        for topic in self._topics:
            for part in self._client.describe_topic(topic).partitions:
                place = (topic, part.number)
                span = spans.get(place)
                if span is not None and self._held.get(place) != span.end:
                    self._held[place] = self._client.commit_offset(place[0], self._group, place[1], span.end)
                elif span is None and place not in self._held:
                    self._held[place] = self._hold_whole(place)

    def _hold_whole(self, place: Partition) -> int:
        """At 0, and not at the oldest record: between asking where that is and saying so it could go."""
        known = self._client.committed_offset(place[0], self._group, place[1])
        return known if known is not None else self._client.commit_offset(place[0], self._group, place[1], 0)
