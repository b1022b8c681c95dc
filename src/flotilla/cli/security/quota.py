"""`flotilla quota`: how much users and namespaces may use."""

from dataclasses import asdict, fields
from typing import Annotated, Final, TypeAlias

import typer

from flotilla.cli.terminal.output import note, print_done, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.types.notation import parse_size
from flotilla.types.operations.quotas import LIMITS, Quota, QuotaUsage

quota_app = typer.Typer(name="quota", help="How much users and namespaces may use.", no_args_is_help=True)

User: TypeAlias = Annotated[str, typer.Option("--user", help="Of this user.", show_default=False)]
Namespace: TypeAlias = Annotated[
    str, typer.Option("--namespace", help="Of all topics whose names begin with this and a dot.", show_default=False)
]
_NO_LIMIT = "0"
#: The limits of which it is known how much is used.
_USED: Final = tuple(field.name for field in fields(QuotaUsage))


@quota_app.command("set")
@takes_cluster
def set_quota(
    cluster: Cluster,
    user: User = "",
    namespace: Namespace = "",
    bytes_in: Annotated[str, typer.Option("--bytes-in", help="Sent to one node in a second: 10MiB.")] = _NO_LIMIT,
    bytes_out: Annotated[str, typer.Option("--bytes-out", help="Received from one node in a second.")] = _NO_LIMIT,
    requests: Annotated[int, typer.Option("--requests", help="At one node in a second.")] = 0,
    connections: Annotated[int, typer.Option("--connections", help="Of a user: open at one node.")] = 0,
    partitions: Annotated[int, typer.Option("--partitions", help="Of all topics of the user or the namespace.")] = 0,
    stored: Annotated[str, typer.Option("--stored", help="In all these topics, without replicas.")] = _NO_LIMIT,
    as_json: AsJson = False,
) -> None:
    """Limit a user or a namespace, in place of the quota that it had: what is not named has no limit.

    Example: `flotilla quota set --user anna --bytes-in 10MiB --requests 1000`
    """
    made = Quota(user, namespace, _size(bytes_in), _size(bytes_out), requests, connections, partitions, _size(stored))
    with cluster.connect() as client:
        client.admin.quotas.set(made)
    print_done(as_plain(made), f"quota of {made}", as_json=as_json)


@quota_app.command("list")
@takes_cluster
def list_quotas(cluster: Cluster, as_json: AsJson = False) -> None:
    """List all quotas, and how many partitions and bytes count for each.

    Example: `flotilla quota list`
    """
    with cluster.connect() as client:
        found = client.admin.quotas.usage()
    if as_json:
        print_json([as_plain(quota) | {"used": asdict(usage)} for quota, usage in found])
    elif not found:
        note("there are no quotas")
    else:
        rows = [(quota.subject, *[_shown(quota, usage, name) for name in LIMITS]) for quota, usage in found]
        print_table(("of", *[name.replace("_", " ") for name in LIMITS]), rows)


@quota_app.command("remove")
@takes_cluster
def remove(cluster: Cluster, user: User = "", namespace: Namespace = "", as_json: AsJson = False) -> None:
    """Remove the quota of a user or a namespace.

    Example: `flotilla quota remove --user anna`
    """
    with cluster.connect() as client:
        client.admin.quotas.remove(user=user, namespace=namespace)
    gone = Quota(user, namespace)
    print_done({"user": user, "namespace": namespace}, f"{gone.subject} has no quota", as_json=as_json)


def _shown(quota: Quota, usage: QuotaUsage, name: str) -> str:
    limit = getattr(quota, name)
    if not limit:
        return "-"
    return f"{getattr(usage, name)} of {limit}" if name in _USED else str(limit)


def _size(text: str) -> int:
    """Raises InvalidArgumentError."""
    return 0 if text == _NO_LIMIT else parse_size(text)


def as_plain(quota: Quota) -> dict[str, object]:
    """Without limits that it does not set."""
    limits = {name: getattr(quota, name) for name in LIMITS if getattr(quota, name)}
    return {"user": quota.user} | limits if quota.user else {"namespace": quota.namespace} | limits
