"""The upgrade of the cluster version: at the metadata's leader, once every node supports the new one.

An operator starts it, because it is the point of no return: until then each node can go back to the earlier program.
"""

from flotilla.broker.catalog import Catalog
from flotilla.broker.ports import Done, Outside
from flotilla.metadata.commands import SetClusterVersion
from flotilla.types.errors import ConfigurationChangeError, FlotillaError
from flotilla.types.ids import NodeId
from flotilla.types.operations.cluster import UPGRADE_POSSIBLE, ClusterUpgraded, NodeWarning, UpgradeCluster
from flotilla.types.version import VersionRange


class ClusterUpgrades:
    def __init__(self, catalog: Catalog, outside: Outside) -> None:
        self._catalog = catalog
        self._outside = outside

    def upgrade_cluster(self, request: UpgradeCluster, done: Done) -> None:
        before = self._catalog.cluster_version
        supported = self._supported()
        version = request.version or max(before, _highest(supported))
        if version < before:
            raise ConfigurationChangeError(f"the cluster is at version {before}, and never goes back to {version}")
        lacking = [f"node {node} supports {each}" for node, each in supported.items() if not each.has(version)]
        if lacking:
            raise ConfigurationChangeError(f"not all nodes support cluster version {version}: {', '.join(lacking)}")
        if version == before or request.is_dry_run:
            done(ClusterUpgraded(version, before))
            return

        def answered(result: object) -> None:
            failed = isinstance(result, FlotillaError)
            done(self._catalog.explain(result) if failed else ClusterUpgraded(version, before))

        brokers = tuple(sorted(self._catalog.brokers()))
        self._catalog.propose(SetClusterVersion(version, brokers, self._outside.now_ms()), answered)

    def warnings(self, node: NodeId) -> list[NodeWarning]:
        """Of this node, if it leads the metadata: the cluster could have a later version."""
        version = self._catalog.cluster_version
        try:
            highest = _highest(self._supported())
        except FlotillaError:
            return []
        if highest <= version:
            return []
        text = (
            f"the cluster is at version {version}, and all nodes support {highest}: run `flotilla cluster upgrade` "
            "when no node has to go back to an earlier version of flotilla"
        )
        return [NodeWarning(UPGRADE_POSSIBLE, text, node)]

    def _supported(self) -> dict[NodeId, VersionRange]:
        """The versions of every node. Raises ConfigurationChangeError while one is away: it may be any program.

        Founders are members before they have registered as brokers.
        """
        nodes = {*self._catalog.leading().raft.configuration.members(), *self._catalog.brokers()}
        found = {node: self._outside.versions_of(node) for node in sorted(nodes)}
        away = [str(node) for node, versions in found.items() if versions is None]
        if away:
            raise ConfigurationChangeError(
                f"the version of a cluster is raised while all its nodes are up: start node {', '.join(away)}, or "
                "remove it for good"
            )
        return {node: versions for node, versions in found.items() if versions is not None}


def _highest(supported: dict[NodeId, VersionRange]) -> int:
    return min([versions.highest for versions in supported.values()])
