"""Readable names of Raft groups: topic and partition, for logs and metrics.

A group id is never used twice, so a name that was found once stays right.
"""

from collections.abc import Container
from typing import NamedTuple

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.metadata.queries import AssignmentOf, TopicById
from flotilla.metadata.values import Assignment, Topic
from flotilla.types.ids import GroupId


class GroupName(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


#: Users cannot create topics that begin like these.
METADATA_NAME = GroupName("__metadata", 0)
UNASSIGNED_TOPIC = "__unassigned"


class GroupNames:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[GroupId, GroupName] = {METADATA_GROUP: METADATA_NAME}

    def of(self, group: GroupId) -> GroupName:
        """A group without a partition, or whose partition is gone, is named by its number."""
        known = self._known.get(group)
        if known is not None:
            return known
        assignment = self._catalog.machine.read(AssignmentOf(group))
        if isinstance(assignment, Assignment):
            topic = self._catalog.machine.read(TopicById(assignment.topic_id))
            if isinstance(topic, Topic):
                self._known[group] = found = GroupName(topic.name, assignment.partition)
                return found
        return GroupName(UNASSIGNED_TOPIC, group)

    def forget_except(self, groups: Container[GroupId]) -> None:
        """Forgets groups that are no longer here."""
        for group in [group for group in self._known if group != METADATA_GROUP and group not in groups]:
            del self._known[group]
