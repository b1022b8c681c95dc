"""`flotilla role`: named sets of grants, and the users who have them."""

from typing import Annotated, TypeAlias

import typer

from flotilla.cli.security.acl import ActionName, Group, Topic, User, change_grant
from flotilla.cli.terminal.output import note, print_done, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.types.access import ALL, ROLE_PREFIX

role_app = typer.Typer(name="role", help="Named sets of grants that users have.", no_args_is_help=True)

Role: TypeAlias = Annotated[str, typer.Argument(metavar="ROLE", show_default=False)]


@role_app.command("grant")
@takes_cluster
def grant(
    cluster: Cluster, role: Role, action: ActionName, topic: Topic = ALL, group: Group = ALL, as_json: AsJson = False
) -> None:
    """Grant a right to a role, and so to all users who have it. The first grant creates the role.

    Example: `flotilla role grant readers consume "team-a.*"`
    """
    change_grant(cluster, ROLE_PREFIX + role, action, topic, group, is_given=True, as_json=as_json)


@role_app.command("revoke")
@takes_cluster
def revoke(
    cluster: Cluster, role: Role, action: ActionName, topic: Topic = ALL, group: Group = ALL, as_json: AsJson = False
) -> None:
    """Take a grant of a role back, exactly as it was given.

    Example: `flotilla role revoke readers consume "team-a.*"`
    """
    change_grant(cluster, ROLE_PREFIX + role, action, topic, group, is_given=False, as_json=as_json)


@role_app.command("assign")
@takes_cluster
def assign(cluster: Cluster, role: Role, user: User, as_json: AsJson = False) -> None:
    """Give a role to a user.

    Example: `flotilla role assign readers anna`
    """
    with cluster.connect() as client:
        client.admin.roles.assign(role, user)
    print_done({"role": role, "user": user}, f"{user} has the role {role}", as_json=as_json)


@role_app.command("unassign")
@takes_cluster
def unassign(cluster: Cluster, role: Role, user: User, as_json: AsJson = False) -> None:
    """Take a role from a user. What the user is doing by it ends.

    Example: `flotilla role unassign readers anna`
    """
    with cluster.connect() as client:
        client.admin.roles.unassign(role, user)
    print_done({"role": role, "user": user}, f"{user} does not have the role {role}", as_json=as_json)


@role_app.command("list")
@takes_cluster
def list_roles(cluster: Cluster, as_json: AsJson = False) -> None:
    """List all roles with their users. `flotilla acl list` shows the grants of roles.

    Example: `flotilla role list`
    """
    with cluster.connect() as client:
        granted = [each.user.removeprefix(ROLE_PREFIX) for each in client.admin.grants.list() if _is_role(each.user)]
        users: dict[str, list[str]] = {role: [] for role in granted}
        for each in client.admin.roles.list():
            users.setdefault(each.role, []).append(each.user)
    if as_json:
        print_json([{"role": role, "users": held} for role, held in sorted(users.items())])
    elif not users:
        note("there are no roles; `flotilla role grant` makes one")
    else:
        print_table(("role", "users"), [(role, ", ".join(held)) for role, held in sorted(users.items())])


@role_app.command("delete")
@takes_cluster
def delete(cluster: Cluster, role: Role, as_json: AsJson = False) -> None:
    """Delete a role with its grants, and take it from all users.

    Example: `flotilla role delete readers`
    """
    with cluster.connect() as client:
        client.admin.roles.delete(role)
    print_done({"role": role}, f"deleted the role {role}", as_json=as_json)


def _is_role(holder: str) -> bool:
    return holder.startswith(ROLE_PREFIX)
