"""`flotilla acl`: grant, revoke and list what users may do, and say why one may."""

from typing import Annotated, TypeAlias

import typer

from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import note, print_done, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.types.access import ACTIONS, ALL, OPERATE, Action, Grant, Resource, deciding
from flotilla.types.errors import InvalidArgumentError

acl_app = typer.Typer(name="acl", help="What users may do.", no_args_is_help=True)

User: TypeAlias = Annotated[str, typer.Argument(metavar="USER", show_default=False)]
ActionName: TypeAlias = Annotated[
    str, typer.Argument(metavar="ACTION", help=f"One of {', '.join(ACTIONS)}.", show_default=False)
]
Topic: TypeAlias = Annotated[str, typer.Argument(metavar="TOPIC", help="A name, a prefix and *, or * for all.")]
Group: TypeAlias = Annotated[str, typer.Option("--group", help="Only these groups: a name, or a prefix and *.")]


@acl_app.command("grant")
@takes_cluster
def grant(
    cluster: Cluster, user: User, action: ActionName, topic: Topic = ALL, group: Group = ALL, as_json: AsJson = False
) -> None:
    """Let a user do something to topics and their groups.

    Example: `flotilla acl grant anna consume "orders*" --group billing`
    """
    change_grant(cluster, user, action, topic, group, is_given=True, as_json=as_json)


@acl_app.command("revoke")
@takes_cluster
def revoke(
    cluster: Cluster, user: User, action: ActionName, topic: Topic = ALL, group: Group = ALL, as_json: AsJson = False
) -> None:
    """Take a grant back, exactly as it was given. What the user is doing by it ends.

    Example: `flotilla acl revoke anna consume "orders*" --group billing`
    """
    change_grant(cluster, user, action, topic, group, is_given=False, as_json=as_json)


@acl_app.command("list")
@takes_cluster
def list_grants(
    cluster: Cluster,
    user: Annotated[str, typer.Argument(metavar="USER", help="Only of this user.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """List the grants of a user and its roles, or of all users and roles.

    Example: `flotilla acl list anna`
    """
    with cluster.connect() as client:
        found = client.admin.grants.list(user)
    if as_json:
        print_json([as_plain(each) for each in found])
    elif not found:
        note(f"{user} has no grants" if user else "there are no grants")
    else:
        print_table(("user", "action", "topic", "group"), [(x.user, x.action, x.topic, x.group) for x in found])


@acl_app.command("why")
@takes_cluster
def why(
    cluster: Cluster,
    user: User,
    action: ActionName,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of one topic.", show_default=False)] = "",
    group: Annotated[str, typer.Option("--group", help="The name of one of its groups.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Say which grant lets a user do something. The exit code is 1 when none does.

    Example: `flotilla acl why anna consume orders --group billing`
    """
    chosen = _checked(action)
    if not topic and chosen != OPERATE:
        raise InvalidArgumentError(f"name the topic that {user} wants to {chosen}")
    with cluster.connect() as client:
        found = deciding(client.admin.grants.list(user), chosen, Resource(topic, group))
    answer = None if found is None else as_plain(found)
    text = f"{user} may not: no grant allows it" if found is None else f"{user} may, by the grant: {found}"
    print_done({"is_allowed": found is not None, "grant": answer}, text, as_json=as_json)
    if found is None:
        raise typer.Exit(FAILED.code)


def change_grant(
    cluster: Cluster, holder: str, action: str, topic: str, group: str, *, is_given: bool, as_json: bool
) -> None:
    """Gives a grant to a user or a role, or takes it back."""
    grant = Grant(holder, _checked(action), topic, group)
    with cluster.connect() as client:
        change = client.admin.grants.add if is_given else client.admin.grants.remove
        change(holder, _checked(action), topic, group)
    print_done(as_plain(grant), f"{'granted' if is_given else 'revoked'}: {grant}", as_json=as_json)


def _checked(action: str) -> Action:
    if action not in ACTIONS:
        raise InvalidArgumentError(f"an action is one of {', '.join(ACTIONS)}, not {action!r}")
    return action


def as_plain(grant: Grant) -> dict[str, str]:
    return {"user": grant.user, "action": grant.action, "topic": grant.topic, "group": grant.group}
