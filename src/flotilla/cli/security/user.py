"""`flotilla user`: create, list and delete users, and set their passwords."""

from typing import Annotated, TypeAlias

import typer

from flotilla.cli.security.new_password import PasswordFile, read_password
from flotilla.cli.terminal.message_formats import moment
from flotilla.cli.terminal.output import note, print_done, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster

user_app = typer.Typer(name="user", help="Users with passwords.", no_args_is_help=True)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@user_app.command("create")
@takes_cluster
def create(cluster: Cluster, name: Name, password_file: PasswordFile = None, as_json: AsJson = False) -> None:
    """Create a user, who may do nothing yet (`flotilla acl grant`). The password does not leave this machine.

    Example: `flotilla user create anna`
    """
    password = read_password(password_file, name)
    with cluster.connect() as client:
        client.admin.users.create(name, password)
    print_done({"name": name}, f"created {name}", as_json=as_json)


@user_app.command("list")
@takes_cluster
def list_users(cluster: Cluster, as_json: AsJson = False) -> None:
    """List all users with passwords. Users with certificates or tokens show up in `flotilla acl list` only.

    Example: `flotilla user list`
    """
    with cluster.connect() as client:
        found = client.admin.users.list()
    if as_json:
        print_json(
            [{"name": each.name, "created_ms": each.created_ms, "password_ms": each.password_ms} for each in found]
        )
    elif not found:
        note("there are no users; `flotilla user create` makes one")
    else:
        rows = [(each.name, moment(each.created_ms), moment(each.password_ms)) for each in found]
        print_table(("user", "created", "password set"), rows)


@user_app.command("password")
@takes_cluster
def password(cluster: Cluster, name: Name, password_file: PasswordFile = None, as_json: AsJson = False) -> None:
    """Set another password. Open connections stay open.

    Example: `flotilla user password anna --password-file new.txt`
    """
    chosen = read_password(password_file, name)
    with cluster.connect() as client:
        client.admin.users.set_password(name, chosen)
    print_done({"name": name}, f"{name} has another password", as_json=as_json)


@user_app.command("delete")
@takes_cluster
def delete(cluster: Cluster, name: Name, as_json: AsJson = False) -> None:
    """Delete a user with all its grants, and end its connections.

    Example: `flotilla user delete anna`
    """
    with cluster.connect() as client:
        client.admin.users.delete(name)
    print_done({"name": name}, f"deleted {name}", as_json=as_json)
