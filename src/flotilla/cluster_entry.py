"""How a node gets into its cluster, and out of it: it continues, founds, joins, or learns that it may not.

A cluster is formed in one of four ways, each safe to repeat: a node alone (no peers), a list of peers given to all of
them, `cluster init` over waiting nodes, or joining a running cluster. Afterwards the data directory says which cluster
a node belongs to, not the flags. A node that founds asks every named peer first (`broker.cluster.founding`).

A node that its cluster has removed, or that runs on an older copy of its data directory, is expelled: nothing that it
could still do would be right, so its owner ends it.
"""

import asyncio
from collections.abc import Callable

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.cluster.founding import AWAITS_PEERS, Found, PeerAnswer, Wait, judge_founding
from flotilla.broker.ports import Cancel, Consensus, Outside
from flotilla.client.credentials import JoinCredentials
from flotilla.client.node_client import node_client
from flotilla.metadata.commands import RegisterBroker
from flotilla.metadata.values import NO_LABELS
from flotilla.node import Node
from flotilla.peers.handshake import (
    ACCEPTED,
    DECISION_TEXT,
    FOUNDED_WITH_YOU,
    NO_CLUSTER,
    NO_CLUSTER_ID,
    REFUSED_CLUSTER_ID,
    REFUSED_DATA,
    REFUSED_OLDER,
    REFUSED_REMOVED,
    REFUSED_VERSION,
    PeerWelcome,
)
from flotilla.raft.messages import Configuration
from flotilla.runtime.data_dir_identity import DataDir
from flotilla.runtime.observability.logs import get_logger
from flotilla.security.secret_file import read_secret
from flotilla.security.tls_endpoints import TlsDialler
from flotilla.types.errors import CorruptionError, DiskFullError, FlotillaError, InvalidArgumentError, UnavailableError
from flotilla.types.ids import NodeId
from flotilla.types.version import FIRST, SUPPORTED, why_unsupported

log = get_logger("broker")

JOIN_RETRY_MS = 500
#: For a cluster to admit a node, before it is asked again.
JOIN_MS = 10_000
#: Between two looks at the answers of peers: while the node founds a cluster, and later.
FOUND_LOOK_MS = 50
LOOK_MS = 500
#: A node that waits for others says so after this time: at an ordinary first start they are there sooner.
PATIENCE_MS = 1_000

#: Answers after which a node must end.
_FINAL = {REFUSED_REMOVED: "REMOVED", REFUSED_OLDER: "OLDER_DATA"}
#: Answers that an operator has to do something about.
_GRAVE = {REFUSED_CLUSTER_ID: "OTHER_CLUSTER", REFUSED_DATA: "OTHER_DATA"}


class ClusterEntry:
    def __init__(
        self,
        data: DataDir,
        node: Node,
        consensus: Consensus,
        outside: Outside,
        tls: TlsDialler | None = None,
        token_file: str = "",
    ) -> None:
        """With `tls` the cluster that it joins is asked over encrypted connections.

        `token_file` has the token by which it joins; empty: there is none.
        """
        self._token_file = token_file
        self._data = data
        self._tls = tls
        self._node = node
        self._own = node.network.own
        self._consensus = consensus
        self._outside = outside
        #: This node's registration; known once its listeners are open.
        self.registration: RegisterBroker | None = None
        self.labels = NO_LABELS
        #: Called once, when `expulsion` is set: the owner ends the node.
        self.on_expelled: Callable[[], None] = _no_owner
        #: Why the node must end; None: it need not.
        self.expulsion: Wait | None = None
        #: Why the node has not entered a cluster; None: it has, or it has only begun.
        self._obstacle: Wait | None = None
        self._obstacle_since_ms = 0
        self._is_told = False
        #: The others of the cluster that is being founded, with their peer addresses.
        self._founding: dict[NodeId, str] | None = None
        self._joining: asyncio.Task[None] | None = None
        self._stop_looking: Cancel | None = None
        #: The version with which the cluster begins, if this process founds it.
        self.founding_version = FIRST
        self._own.founders = data.identity.founders
        self._own.cluster_version = data.identity.cluster_version
        if data.identity.cluster_id:
            self._own.cluster_id = bytes.fromhex(data.identity.cluster_id)
        self._own.is_in_cluster = self._is_in_cluster

    @property
    def _is_in_cluster(self) -> bool:
        return METADATA_GROUP in self._node.store.groups

    def start(self) -> None:
        """Watches the answers of peers from now on. The links are open."""
        self._look()

    def close(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
        if self._stop_looking is not None:
            self._stop_looking()

    def reasons(self) -> list[Wait]:
        """Why the node has no part in its cluster, as far as its peers say; empty: it has, or nobody said."""
        if self.expulsion is not None:
            return [self.expulsion]
        return [] if self._obstacle is None else [self._obstacle]

    # Founding.

    def connect(self, others: dict[NodeId, str]) -> None:
        for node, address in others.items():
            self._outside.connect(node, address)

    def connect_founders(self) -> None:
        """Links to the nodes that founded the cluster with this one, as far as the metadata do not know them yet.

        The metadata may never come without: one of those nodes may lead.
        """
        metadata = self._consensus.replica(METADATA_GROUP)
        voters = () if metadata is None else metadata.raft.configuration.voters
        known = self._node.network.answers()
        identity = self._data.identity
        for node, address in identity.founder_addresses.items():
            if node in voters and node not in known:
                self._outside.connect(node, address, identity.founders[node])

    def found(self, others: dict[NodeId, str]) -> None:
        """Founds a cluster with these nodes once all agree; no effect for a node that is part of one."""
        if not self._is_in_cluster:
            self._keep_links(others)
            self._founding = others
            self._try_founding()

    def _keep_links(self, others: dict[NodeId, str]) -> None:
        """Links to these nodes only: any other one may be part of another cluster of the same name."""
        for peer in [peer for peer in self._node.network.answers() if peer not in others]:
            self._node.network.remove_peer(peer)
        self.connect(others)

    def _try_founding(self) -> None:
        assert self._founding is not None
        answers = self._node.network.answers()
        verdict = judge_founding({node: _read(answers.get(node)) for node in self._founding})
        if isinstance(verdict, Wait):
            self._hinder(verdict, node=self._own.node)
            return
        self._found(verdict)

    def _found(self, verdict: Found) -> None:
        voters = tuple(sorted((self._own.node, *verdict.founders)))
        # Durable before the group: a peer that founds a moment later asks whether it was with its data directory.
        self._data.founded(verdict.founders, self._founding or {})
        self._own.founders = dict(verdict.founders)
        self.founding_version = verdict.version
        self._founding = None
        self._create_group(Configuration(voters=voters))
        log.info("founds a cluster", node=self._own.node, founders=list(voters))
        if len(voters) == 1:
            self._consensus.campaign(METADATA_GROUP)

    def _create_group(self, configuration: Configuration) -> None:
        self._obstacle = None
        self._own.is_in_cluster = True
        self._node.create_group(METADATA_GROUP, configuration)

    # Joining.

    def enter(self, servers: list[str], token: bytes = b"") -> None:
        """Joins the running cluster at these client addresses; no effect for a node that is part of one.

        `token` counts instead of that in the file.
        """
        assert self.registration is not None, "a node joins after its listeners are open"
        own = self.registration.client_address
        # All nodes may be given the same list; asking itself does not help.
        others = [server for server in servers if server != own] or servers
        if not self._is_in_cluster:
            if self._joining is not None:
                # The newer addresses count.
                self._joining.cancel()
            self._founding = None
            self._joining = asyncio.create_task(self._join(self.registration, others, token))

    async def _join(self, own: RegisterBroker, servers: list[str], token: bytes) -> None:
        """Asks the running cluster until it admits this node; then everything comes by replication."""
        while self.expulsion is None:
            try:
                peers, cluster_id = await self._ask(own, servers, token)
            except FlotillaError as error:
                log.warning("joining failed, retrying", error=str(error))
                self._obstacle = Wait("JOINING", f"the cluster has not admitted this node yet: {error}")
                await asyncio.sleep(JOIN_RETRY_MS / 1000)
                continue
            self._keep_links(peers)
            self.cluster_known(cluster_id, self._data.identity.cluster_version)
            self._create_group(Configuration())
            return

    async def _ask(self, own: RegisterBroker, servers: list[str], token: bytes) -> tuple[dict[NodeId, str], str]:
        """The peer addresses of the others, and the id of the cluster."""
        secret = self._own.secret
        credentials = None if secret is None else JoinCredentials(str(own.node), secret)
        # Read for each attempt: it may be mended meanwhile.
        token = token or (read_secret(self._token_file).encode() if self._token_file else b"")
        async with node_client(servers, self._tls, timeout_ms=JOIN_MS, credentials=credentials) as client:
            # Another cluster would admit it, and then refuse its links.
            found = await client.admin.metadata()
            self._check_version(found.cluster_version)
            if self.expulsion is not None:
                raise InvalidArgumentError(self.expulsion.message)
            if found.cluster_name and found.cluster_name != own.cluster_name:
                raise InvalidArgumentError(f"that is cluster {found.cluster_name!r}, not {own.cluster_name!r}")
            known = self._data.identity.cluster_id
            if known and found.cluster_id and found.cluster_id != known:
                raise InvalidArgumentError(
                    f"that is cluster {found.cluster_id}, and this node's data directory belongs to cluster {known}"
                )
            reply = await client.admin.join_cluster(
                own.node,
                peer=own.peer_address,
                client=own.client_address,
                http=own.http_address,
                incarnation=self._own.data,
                token=token,
                machine=self.labels.machine,
                zone=self.labels.zone,
            )
        others = {node: address for node, address in reply.peers.items() if node != own.node}
        if not others:
            # Without addresses it could connect to no node.
            raise UnavailableError("the cluster has admitted this node, but does not name its own nodes yet")
        return others, reply.cluster_id

    # In the cluster.

    def cluster_known(self, cluster_id: str, cluster_version: int) -> None:
        """The metadata have both: they stand in the data directory and in every handshake from now on."""
        cluster_version = max(cluster_version, self._own.cluster_version)
        is_news = (self._own.cluster_id.hex(), self._own.cluster_version) != (cluster_id, cluster_version)
        try:
            self._data.entered(cluster_id, cluster_version)
        except CorruptionError as error:
            self.expel(Wait("OTHER_CLUSTER", str(error)))
        except (OSError, DiskFullError) as error:
            # Tried again with the next change of the metadata; meanwhile the handshakes have it.
            if is_news:
                log.warning("the cluster's id and version cannot be written", node=self._own.node, error=str(error))
        self._own.cluster_id = bytes.fromhex(cluster_id)
        self._own.cluster_version = cluster_version
        self._check_version(cluster_version)

    def _check_version(self, cluster_version: int) -> None:
        unsupported = why_unsupported(cluster_version)
        if unsupported:
            self.expel(Wait("CLUSTER_VERSION", unsupported))

    def removed(self) -> None:
        self.expel(Wait("REMOVED", DECISION_TEXT[REFUSED_REMOVED]))

    def expel(self, reason: Wait) -> None:
        if self.expulsion is None:
            self.expulsion = reason
            log.error("the node has no place in its cluster and ends", node=self._own.node, reason=reason.message)
            self.on_expelled()

    def _look(self) -> None:
        is_founding = self._founding is not None
        self._stop_looking = self._outside.later(FOUND_LOOK_MS if is_founding else LOOK_MS, self._look)
        if is_founding:
            self._try_founding()
        answers = {node: answer for node, answer in self._node.network.answers().items() if answer is not None}
        for node, answer in answers.items():
            if answer.decision in _FINAL:
                self.expel(Wait(_FINAL[answer.decision], f"node {node} says: {DECISION_TEXT[answer.decision]}"))
            elif answer.decision == REFUSED_VERSION and answer.version > SUPPORTED.highest:
                # Versions of clusters never go down. One that is lower than this node's may be old news.
                self._check_version(answer.version)
        if self._is_in_cluster:
            self._heed(answers)

    def _heed(self, answers: dict[NodeId, PeerWelcome]) -> None:
        """Keeps what the peers have against this node, for its readiness. Both sides have logged it already."""
        grave = sorted((node, answer) for node, answer in answers.items() if answer.decision in _GRAVE)
        self._obstacle = None
        if grave:
            node, answer = grave[0]
            self._obstacle = Wait(_GRAVE[answer.decision], f"node {node} says: {DECISION_TEXT[answer.decision]}")

    def _hinder(self, obstacle: Wait, **fields: object) -> None:
        """Notes why the cluster is not founded yet, and logs it once: at once, or when waiting has taken a while."""
        now_ms = self._outside.steady_ms()
        if obstacle != self._obstacle:
            self._obstacle, self._obstacle_since_ms, self._is_told = obstacle, now_ms, False
        patience_ms = PATIENCE_MS if obstacle.code == AWAITS_PEERS else 0
        if not self._is_told and now_ms - self._obstacle_since_ms >= patience_ms:
            self._is_told = True
            log.warning("founds no cluster", reason=obstacle.message, **fields)


def _read(answer: PeerWelcome | None) -> PeerAnswer | None:
    if answer is None:
        return None
    is_accepted = answer.decision == ACCEPTED
    return PeerAnswer(
        is_accepted=is_accepted,
        is_in_cluster=answer.standing != NO_CLUSTER,
        founded_with_us=answer.standing == FOUNDED_WITH_YOU,
        data=answer.data,
        cluster_id="" if answer.cluster_id == NO_CLUSTER_ID else answer.cluster_id.hex(),
        reason="" if is_accepted else DECISION_TEXT.get(answer.decision, f"decision {answer.decision}"),
        version=answer.version,
    )


def _no_owner() -> None:
    """Until the owner of the node has set it."""
