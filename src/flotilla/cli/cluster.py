"""`flotilla cluster`: form a cluster, show it, add and remove nodes, or run one on this machine.

`init` asks each waiting node for its id and peer address, and then sends all of them to every node. It is idempotent: a
node of this cluster agrees, a node of another cluster refuses. Draining and removal continue in the background;
`--wait` only watches.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.live import Live
from rich.text import Text

from flotilla.cli.local_cluster import LAYOUT_FILE, POLL_S, LocalCluster
from flotilla.cli.recovery.command import restore as restore_backup
from flotilla.cli.recovery.command import take as take_backup
from flotilla.cli.terminal.arguments import Node, complete_nodes
from flotilla.cli.terminal.exit_codes import FAILED, UNAVAILABLE
from flotilla.cli.terminal.first_administrator import create_administrator
from flotilla.cli.terminal.move_progress import Moving, moving, shares_there, watch
from flotilla.cli.terminal.node_answers import MISSING, clients_of, warnings_of
from flotilla.cli.terminal.output import age, console, note, note_stale, print_done, print_json, print_table
from flotilla.cli.terminal.servers import DEFAULT_TIMEOUT, AsJson, Cluster, Timeout, read_duration, takes_cluster
from flotilla.cli.terminal.watching import Watch, show_again
from flotilla.cli.transfer.command import definitions_app
from flotilla.types.errors import (
    DeadlineError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE
from flotilla.types.operations import Metadata
from flotilla.types.operations.cluster import CLIENTS_SHOWN_MAX, INFORMATION, NodeWarning

if TYPE_CHECKING:
    from flotilla.client.client import Client

DEFAULT_BASE_PORT = 7600
DEFAULT_FOLDER = Path("flotilla-cluster")
_REFRESH_S = 0.5
_ASK_MS = 1_000

cluster_app = typer.Typer(name="cluster", help="Form, inspect and run clusters.", no_args_is_help=True)

JoinSecretFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--join-secret",
        metavar="FILE",
        envvar="FLOTILLA_JOIN_SECRET",
        help="The file with the join secret of the nodes, if they have one.",
        show_default=False,
    ),
]
Folder: TypeAlias = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder for data, logs and ports.")]


cluster_app.command("backup")(take_backup)
cluster_app.command("restore")(restore_backup)
cluster_app.add_typer(definitions_app)

# Any cluster.


@cluster_app.command("init")
def init(
    addresses: Annotated[
        list[str], typer.Argument(metavar="HOST:PORT...", help="Client addresses of all nodes.", show_default=False)
    ],
    admin_out: Annotated[
        Path | None,
        typer.Option(
            "--admin-out",
            metavar="FILE",
            help="Create the first user, admin, who may do everything, and write its password there.",
            show_default=False,
        ),
    ] = None,
    join_secret: JoinSecretFile = None,
    as_json: AsJson = False,
    timeout: Timeout = "30s",
) -> None:
    """Form a cluster of nodes that wait for it (`flotilla serve --await-init`). Safe to repeat.

    A cluster that has users already gets no other administrator. The first one is created from the machine of a node.

    Example: `flotilla cluster init node1:7600 node2:7600 node3:7600`
    """
    deadline = time.monotonic() + read_duration(timeout, "--timeout") / 1000
    was_there = admin_out is not None and admin_out.exists()
    nodes = partial(Cluster, timeout=timeout, join_secret=join_secret)
    try:
        metadata = _found(addresses, nodes, admin_out, deadline)
    except UnauthenticatedError:
        if admin_out is None or not admin_out.exists():
            raise
        # An attempt that was cut off may have created the user: the cluster knows the password in the file then.
        try:
            metadata = _found(addresses, partial(nodes, administrator=admin_out), admin_out, deadline)
        except UnauthenticatedError:
            if not was_there:
                # Another command has created the first user meanwhile, with another password.
                admin_out.unlink()
            raise
    _show_status(metadata, [], {}, [], as_json=as_json)


def _found(addresses: list[str], nodes: Callable[..., Cluster], admin_out: Path | None, deadline: float) -> Metadata:
    found: dict[int, tuple[str, str]] = {}
    for address in addresses:
        with nodes(address).connect() as client:
            (node, peer), *_ = client.admin.init_cluster({}).peers.items()
        if node in found:
            raise InvalidArgumentError(f"{found[node][0]} and {address} are both node {node}; ids must differ")
        found[node] = address, peer
    peers = {node: peer for node, (_, peer) in sorted(found.items())}
    for address, _ in found.values():
        with nodes(address).connect() as client:
            client.admin.init_cluster(peers)
    metadata = _wait_formed(nodes(",".join(addresses), timeout=DEFAULT_TIMEOUT), len(peers), deadline)
    if admin_out is not None:
        with nodes(addresses[0]).connect() as client:
            is_created = create_administrator(client, admin_out)
        note(
            f"the password of user admin is in {admin_out}: keep it, it is nowhere else"
            if is_created
            else "the cluster has users already: no administrator was created"
        )
    return metadata


def _wait_formed(nodes: Cluster, node_count: int, deadline: float) -> Metadata:
    with nodes.connect() as client:
        while True:
            # A node that knows no leader yet does not answer.
            with suppress(DeadlineError, UnavailableError):
                metadata = client.admin.metadata()
                if metadata.controller != NO_NODE and len(metadata.brokers) >= node_count:
                    return metadata
            if time.monotonic() > deadline:
                raise UnavailableError("the nodes got the list of members, but not all are connected; check their logs")
            time.sleep(POLL_S)


@cluster_app.command("status")
@takes_cluster
def status(
    cluster: Cluster,
    wait: Annotated[bool, typer.Option("--wait", help="Wait up to --timeout until the cluster is complete.")] = False,
    watch_it: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Show brokers, leaders, moves and warnings. The exit code is 4 when a broker, a leader or a replica is missing.

    Example: `flotilla cluster status --wait --timeout 30s`
    """
    if watch_it:
        show_again(lambda: _show_once(cluster, as_json=as_json, is_awaited=False), is_watched=True)
    elif not _show_once(cluster, as_json=as_json, is_awaited=wait):
        raise typer.Exit(UNAVAILABLE.code)


def _show_once(cluster: Cluster, *, as_json: bool, is_awaited: bool) -> bool:
    """Whether the cluster is complete."""
    deadline = time.monotonic() + cluster.timeout_ms / 1000
    with cluster.connect() as client:
        metadata, warnings = _look(client)
        while is_awaited and not _is_whole(metadata, warnings) and time.monotonic() < deadline:
            time.sleep(POLL_S)
            metadata, warnings = _look(client)
        moves = moving(metadata)
        there = shares_there(client, moves)
    _show_status(metadata, moves, there, warnings, as_json=as_json)
    return _is_whole(metadata, warnings)


def _look(client: "Client") -> tuple[Metadata, list[NodeWarning]]:
    metadata = client.admin.metadata()
    return metadata, warnings_of(metadata)


def _is_whole(metadata: Metadata, warnings: list[NodeWarning]) -> bool:
    # Between the first election and the first registration no broker is known, and so none is missing.
    is_formed = bool(metadata.cluster_id and metadata.brokers) and metadata.controller != NO_NODE
    is_led = all(part.leader != NO_NODE for topic in metadata.topics for part in topic.partitions)
    is_kept = not metadata.is_stale and all(warning.code not in MISSING for warning in warnings)
    return is_formed and is_led and is_kept and all(broker.is_alive for broker in metadata.brokers)


def _show_status(
    metadata: Metadata, moves: list[Moving], there: dict[str, float], warnings: list[NodeWarning], *, as_json: bool
) -> None:
    rows = broker_rows(metadata)
    if as_json:
        print_json(
            {
                "cluster_id": metadata.cluster_id,
                "cluster_name": metadata.cluster_name,
                "cluster_version": metadata.cluster_version,
                "controller": metadata.controller,
                "is_whole": _is_whole(metadata, warnings),
                "is_stale": metadata.is_stale,
                "topics": len(metadata.topics),
                "partitions": sum(len(topic.partitions) for topic in metadata.topics),
                "brokers": rows,
                "moves": [{**move._asdict(), "share_there": there.get(str(move))} for move in moves],
                "warnings": [asdict(warning) for warning in warnings],
            }
        )
        return
    note_stale(metadata)
    labels = [label for label in ("machine", "zone") if any(row[label] for row in rows)]
    columns = ("node", "address", "alive", "state", "controller", "leads", "replicas", "version", *labels)
    keys = ("node", "client", "is_alive", "state", "is_controller", "leads", "replicas", "version", *labels)
    print_table(columns, [_painted([row[key] for key in keys]) for row in rows])
    parts = sum(len(topic.partitions) for topic in metadata.topics)
    without_leader = sum(part.leader == NO_NODE for topic in metadata.topics for part in topic.partitions)
    name = f"{metadata.cluster_name} ({metadata.cluster_id})" if metadata.cluster_id else "(not formed yet)"
    version = f", version {metadata.cluster_version}" if metadata.cluster_id and metadata.cluster_version else ""
    missing = f", {without_leader} without a leader" if without_leader else ""
    typer.echo(f"cluster {name}{version}: {len(metadata.topics)} topic(s), {parts} partition(s){missing}")
    for warning in warnings:
        typer.echo(f"{'note' if warning.code in INFORMATION else 'warning'}: {warning.message}")
    if moves:
        typer.echo()
        lines = [(str(move), *_ends(move), _percent(there.get(str(move)))) for move in moves]
        print_table(("moving", "from", "to", "copied"), lines)


def _ends(move: Moving) -> tuple[str, str]:
    return ",".join(map(str, move.replicas)), ",".join(map(str, move.target))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _painted(cells: list[Any]) -> list[Any]:
    cells[2] = Text("yes", "green") if cells[2] else Text("no", "bold red")
    return cells


def broker_rows(metadata: Metadata) -> list[dict[str, Any]]:
    """One row for each broker, with the numbers of its leaders and replicas."""
    parts = [part for topic in metadata.topics for part in topic.partitions]
    return [
        {
            **asdict(broker),
            "is_controller": broker.node == metadata.controller,
            "leads": sum(part.leader == broker.node for part in parts),
            "replicas": sum(broker.node in part.replicas for part in parts),
        }
        for broker in sorted(metadata.brokers, key=lambda each: each.node)
    ]


@cluster_app.command("clients")
@takes_cluster
def clients(
    cluster: Cluster,
    node: Annotated[
        int | None,
        typer.Option(
            "--node", metavar="NODE", min=1, help="Of this node.", show_default="all", autocompletion=complete_nodes
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=CLIENTS_SHOWN_MAX, help="Maximum number of each node.")
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """Show the clients connected to each node; of gRPC clients those with a call in flight.

    A node that does not answer in time is left out.

    Example: `flotilla cluster clients --node 1`
    """
    with cluster.connect() as client:
        brokers = [broker for broker in client.admin.metadata([""]).brokers if node in (None, broker.node)]
    if node is not None and not brokers:
        raise NotFoundError(f"there is no node {node}")
    found = {broker.node: clients_of(broker, limit) for broker in sorted(brokers, key=lambda each: each.node)}
    rows = [{"node": number, **asdict(each)} for number, known in found.items() if known for each in known.clients]
    total = sum(known.total for known in found.values() if known)
    if as_json:
        silent = [number for number, known in found.items() if known is None]
        print_json({"clients": rows, "total": total, "silent": silent})
        return
    columns = ("node", "endpoint", "name", "address", "principal", "connected", "in flight")
    keys = ("node", "endpoint", "name", "address", "principal", "connected_ms", "in_flight")
    print_table(columns, [[age(row[key]) if key == "connected_ms" else row[key] for key in keys] for row in rows])
    if total > len(rows):
        note(f"{total - len(rows)} more; --limit shows more of them")


# Nodes.

Wait: TypeAlias = Annotated[bool, typer.Option("--wait", help="Wait until everything has moved.")]


@cluster_app.command("add")
@partial(takes_cluster, timeout="30s")
def add(
    cluster: Cluster,
    addresses: Annotated[
        list[str], typer.Argument(metavar="HOST:PORT...", help="Client addresses of the new nodes.", show_default=False)
    ],
    join_secret: JoinSecretFile = None,
    as_json: AsJson = False,
) -> None:
    """Add nodes that wait (`flotilla serve --await-init`) to this cluster. Safe to repeat.

    A node that was started with --join adds itself. New partitions use new nodes at once; `flotilla topic rebalance`
    moves existing ones.

    Example: `flotilla cluster add node4:7600 --servers node1:7600`
    """
    deadline = time.monotonic() + cluster.timeout_ms / 1000
    with cluster.connect() as client:
        known = [broker.client for broker in client.admin.metadata().brokers]
        entered = []
        for address in addresses:
            # Over TLS alone: whoever reads it could use it first.
            token = client.admin.create_join_token() if cluster.has_tls else ""
            with Cluster(address, cluster.timeout, join_secret=join_secret).connect() as newcomer:
                (node, _), *_ = newcomer.admin.enter_cluster(known, token=token).peers.items()
            while not any(broker.node == node and broker.is_alive for broker in client.admin.metadata().brokers):
                if time.monotonic() > deadline:
                    raise UnavailableError(f"node {node} was added, but has not joined; check its log")
                time.sleep(POLL_S)
            entered.append({"node": node, "address": address})
            if not as_json:
                typer.echo(f"node {node} at {address} has joined")
    if as_json:
        print_json({"nodes": entered})
    note("`flotilla topic rebalance` moves existing partitions to it")


@cluster_app.command("token")
@takes_cluster
def token(
    cluster: Cluster,
    ttl: Annotated[str, typer.Option("--ttl", metavar="DURATION", help="How long it is good.")] = "15m",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it to a new file, not to the terminal.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token by which one node joins a cluster with TLS, once (`flotilla serve --join-token FILE`).

    Example: `flotilla cluster token --ttl 15m --out node4.token`
    """
    ttl_ms = read_duration(ttl, "--ttl")
    with cluster.connect() as client:
        made = client.admin.create_join_token(ttl_ms)
    if out is None:
        print_done({"token": made, "ttl_ms": ttl_ms}, made, as_json=as_json)
        return
    with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
        written.write(made + "\n")
    print_done({"file": str(out), "ttl_ms": ttl_ms}, f"the token is in {out}, good once and for {ttl}", as_json=as_json)


@cluster_app.command("remove")
@takes_cluster
def remove(
    cluster: Cluster,
    node: Node,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Remove a node for good, alive or dead: its replicas move elsewhere first. Its id cannot be used again.

    Example: `flotilla cluster remove 3 --wait`
    """
    with cluster.connect() as client:
        client.admin.remove_node(node)
        if wait:
            _watch_emptying(client, node, lambda found: all(broker.node != node for broker in found.brokers))
        is_gone = all(broker.node != node for broker in client.admin.metadata().brokers)
    text = (
        f"node {node} has left; its process ends by itself"
        if is_gone
        else f"node {node} leaves when it is empty; `flotilla cluster status` shows the progress"
    )
    print_done({"node": node, "is_gone": is_gone}, text, as_json=as_json)


@cluster_app.command("drain")
@takes_cluster
def drain(
    cluster: Cluster,
    node: Node,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Move all replicas off a node, and place no new ones on it. `undrain` ends that.

    Example: `flotilla cluster drain 3 --wait`
    """
    with cluster.connect() as client:
        client.admin.drain_node(node)
        if wait:
            _watch_emptying(client, node, lambda found: _holds_nothing(found, node))
    text = f"node {node} is empty" if wait else f"node {node} drains"
    # Without `--wait` it is not known whether the node is empty.
    print_done({"node": node, "state": "draining", "is_empty": True if wait else None}, text, as_json=as_json)


def _watch_emptying(client: "Client", node: int, is_over: Callable[[Metadata], bool]) -> None:
    watch(
        client,
        f"emptying node {node}",
        lambda found: [move for move in moving(found) if node in move.replicas],
        is_over,
    )


def _holds_nothing(metadata: Metadata, node: int) -> bool:
    parts = [part for topic in metadata.topics for part in topic.partitions]
    return all(node not in part.replicas and node not in part.target for part in parts)


@cluster_app.command("undrain")
@takes_cluster
def undrain(cluster: Cluster, node: Node, as_json: AsJson = False) -> None:
    """Cancel the draining or removal of a node. Replicas that have moved stay where they are.

    Example: `flotilla cluster undrain 3`
    """
    with cluster.connect() as client:
        client.admin.drain_node(node, is_draining=False)
    print_done({"node": node, "state": "active"}, f"node {node} stays", as_json=as_json)


@cluster_app.command("upgrade")
@takes_cluster
def upgrade(
    cluster: Cluster,
    version: Annotated[
        int, typer.Option("--to", metavar="VERSION", min=0, help="This version.", show_default="the highest possible")
    ] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the version that it would get.")] = False,
    as_json: AsJson = False,
) -> None:
    """Raise the cluster version, once all nodes run the new program and none has to go back to the earlier one.

    Until then the nodes write nothing that the earlier program cannot read, and each can go back to it. The version of
    a cluster never goes down.

    Example: `flotilla cluster upgrade --dry-run`
    """
    with cluster.connect() as client:
        done = client.admin.upgrade_cluster(version, dry_run=dry_run)
    if done.version == done.before:
        text = f"the cluster is at version {done.version}, the highest that all nodes support"
    else:
        text = f"the cluster {'would go' if dry_run else 'went'} from version {done.before} to {done.version}"
    print_done({**asdict(done), "is_dry_run": dry_run}, text, as_json=as_json)


# A cluster on this machine.


@cluster_app.command("start")
def start(
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=9, help="Number of brokers.")] = 3,
    data: Folder = DEFAULT_FOLDER,
    base_port: Annotated[
        int, typer.Option("--base-port", min=1, max=60_000, help="Port of the first node; each next one is 100 higher.")
    ] = DEFAULT_BASE_PORT,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Leave it running until `cluster stop`.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a local cluster of real processes. Ctrl-C stops all; the next start uses the same data and ports.

    Where some nodes of a detached cluster run, the missing ones are started, detached like them.

    Example: `flotilla cluster start --nodes 3 --detach`
    """
    is_known = (data / LAYOUT_FILE).exists()
    if is_known:
        local = LocalCluster.from_layout(data)
        missing = len(local.nodes) - len(local.running)
        # A node that runs without this command is detached.
        detach = detach or bool(local.running)
        note(f"starting {missing} of the {len(local.nodes)} node(s) in {data}")
    else:
        local = LocalCluster.on_ports_from(base_port, data, node_count=nodes)
    try:
        with console(is_stderr=True).status(f"starting {len(local.nodes)} node(s)"):
            local.start(is_detached=detach)
            local.wait_ready()
    except BaseException:
        _stop_started(local)
        if not is_known:
            # The next start may use other ports.
            local.forget_layout()
        raise
    servers = ",".join(local.servers)
    started = {"nodes": len(local.nodes), "servers": local.servers, "data": str(data)}
    if detach:
        text = (
            f"{len(local.nodes)} node(s) are running at {servers}\nstop them with: flotilla cluster stop --data {data}"
        )
        print_done(started, text, as_json=as_json)
        return
    if as_json:
        print_json(started)
    with local:
        _watch(local, servers)


def _stop_started(local: LocalCluster) -> None:
    """Stops only nodes that this process started."""
    for node in local.nodes.values():
        if node.process is None:
            node.pid = 0
    local.stop()


def _watch(local: LocalCluster, servers: str) -> None:
    printer = console()
    try:
        note(f"{len(local.nodes)} node(s) are running at {servers}; Ctrl-C stops them")
        with (
            Cluster(servers, "1s", is_local=True).connect() as client,
            Live(console=printer, transient=True, auto_refresh=False) as live,
        ):
            while True:
                for node in local.nodes.values():
                    if node.process is not None and not node.is_running:
                        note(f"node {node.node} ended: {node.last_words()}")
                        node.wait_gone()
                        node.process = None
                        node.pid = 0
                running = len(local.running)
                if not running:
                    raise typer.Exit(FAILED.code)
                if printer.is_terminal:
                    live.update(Text(_status_line(client, running, len(local.nodes))), refresh=True)
                time.sleep(_REFRESH_S)
    except KeyboardInterrupt:
        note("stopping")


def _status_line(client: Any, running: int, total: int) -> str:
    try:
        metadata: Metadata = client.admin.metadata(timeout_ms=_ASK_MS)
    except FlotillaError as error:
        return f"{running} of {total} nodes run; no answer: {error.code}"
    leads = " ".join(f"{row['node']}:{row['leads']}" for row in broker_rows(metadata))
    return (
        f"{running} of {total} nodes run · controller {metadata.controller or 'none'} · "
        f"{len(metadata.topics)} topic(s) · partitions led {leads}"
    )


@cluster_app.command("restart")
def restart(
    node: Annotated[
        int | None,
        typer.Argument(
            metavar="NODE", min=1, help="This node alone.", show_default="all nodes", autocompletion=complete_nodes
        ),
    ] = None,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="One node after the other, each when the cluster is complete again.")
    ] = False,
    data: Folder = DEFAULT_FOLDER,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for a complete cluster.")
    ] = "60s",
    as_json: AsJson = False,
) -> None:
    """Restart a detached local cluster: one node, or all at once, or with --rolling one after the other.

    With --rolling clients go on: before a node stops, every partition has its leader and all its replicas.

    Example: `flotilla cluster restart --rolling`
    """
    wait_ms = read_duration(timeout, "--timeout")
    local = LocalCluster.from_layout(data)
    if node is not None and node not in local.nodes:
        raise NotFoundError(f"the cluster in {data} has no node {node}")
    chosen = list(local.nodes) if node is None else [node]
    for turn in [[each] for each in chosen] if rolling else [chosen]:
        if rolling:
            _wait_whole(local, wait_ms)
        local.restart_detached(turn)
        note(f"node {', '.join(map(str, turn))}: started again")
    _wait_whole(local, wait_ms)
    text = f"restarted {len(chosen)} node(s); the cluster is complete"
    print_done({"restarted": chosen, "data": str(data)}, text, as_json=as_json)


def _wait_whole(local: LocalCluster, wait_ms: int) -> None:
    deadline = time.monotonic() + wait_ms / 1000
    with Cluster(",".join(local.servers), "1s", is_local=True).connect() as client:
        while True:
            with suppress(DeadlineError, UnavailableError):
                if _is_whole(*_look(client)):
                    return
            if time.monotonic() > deadline:
                raise UnavailableError("the cluster is not complete; `flotilla cluster status` shows what is missing")
            time.sleep(POLL_S)


@cluster_app.command("stop")
def stop(data: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Stop a detached local cluster. Its data stays. Safe to repeat.

    Example: `flotilla cluster stop`
    """
    local = LocalCluster.from_layout(data)
    count = len(local.running)
    local.stop()
    text = f"stopped {count} node(s)" if count else "no node was running"
    print_done({"stopped": count, "data": str(data)}, text, as_json=as_json)
    sys.stdout.flush()
