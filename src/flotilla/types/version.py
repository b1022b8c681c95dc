"""The version of the package, in the one place that everything else reads it from, and those of clusters it supports.

The cluster version is one number, stored in the metadata, for what every node of a cluster can read. A program supports
a range of them, and says so in every handshake between nodes. What an earlier version cannot read, an entry of a new
kind, a new field, a new layout of a snapshot or a new message between nodes, is written only in a cluster of the
version that brought it. So nodes of two programs work side by side, and a node can go back to the earlier program until
an operator raises the version (`flotilla cluster upgrade`); it never goes down.

To change a format: raise `CLUSTER_VERSION_MAX`, add a constant below, and compare it with the cluster's version
wherever the new format is written. To drop an old one: raise `CLUSTER_VERSION_MIN`.
"""

from typing import Final, NamedTuple

__version__ = "0.2.0.dev0"

#: The range that this program supports.
CLUSTER_VERSION_MIN: Final = 1
CLUSTER_VERSION_MAX: Final = 6

#: The version of a cluster that does not store its version.
FIRST: Final = 1

# Features, by the version that brought them.

#: The metadata have the cluster version: the command that raises it, and its field in their snapshots.
CLUSTER_VERSION_STORED: Final = 2
#: A topic has an owner, and users have quotas of partitions and stored bytes.
TOPIC_OWNERS: Final = 3
#: The metadata have the labels of nodes: the command that sets them, and their field in snapshots.
NODES_LABELLED: Final = 4
#: A larger replication factor is refused where its replicas are too many.
RESIZE_BOUNDED: Final = 4
#: Nodes tell each other when their disks have no room.
ROOM_TOLD: Final = 4
#: A partition has the command that makes delayed messages due.
DELAYS_ENDED: Final = 5
#: A partition remembers when groups were deleted, and refuses commits of readers that knew them before.
GROUP_ENDS_STORED: Final = 6

#: What each version brought, for people.
NEWS: Final = {
    FIRST: "the formats of 0.2.0",
    CLUSTER_VERSION_STORED: "the cluster stores its version",
    TOPIC_OWNERS: "topics have owners, and users have quotas of partitions and stored bytes",
    NODES_LABELLED: "nodes have labels that replicas of a partition do not share, and know of full disks",
    DELAYS_ENDED: "delayed messages can be made due at once",
    GROUP_ENDS_STORED: "readers of a deleted group commit nothing for the next one of its name",
}


class VersionRange(NamedTuple):
    """The cluster versions that a node supports."""

    lowest: int
    highest: int

    def has(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"version {self.lowest} only"
        return f"versions {self.lowest} to {self.highest}"


SUPPORTED: Final = VersionRange(CLUSTER_VERSION_MIN, CLUSTER_VERSION_MAX)


def why_unsupported(version: int) -> str:
    """Why this program cannot be part of a cluster of that version; empty: it can, or the version is not known (0)."""
    if not version or SUPPORTED.has(version):
        return ""
    sentence = f"the cluster is at version {version}, and this program supports {SUPPORTED}"
    if version > SUPPORTED.highest:
        return f"{sentence}: start it with a later version of flotilla"
    return f"{sentence}: run `flotilla cluster upgrade` with an earlier version of flotilla first"
