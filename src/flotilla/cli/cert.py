"""`flotilla cert`: a certificate authority in a folder, and certificates of nodes and users."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from flotilla.cli.terminal.output import print_done
from flotilla.cli.terminal.servers import AsJson
from flotilla.security.authority import CA_DAYS, DAYS, Authority
from flotilla.security.certificates import read_certificate
from flotilla.types.errors import InvalidArgumentError

cert_app = typer.Typer(name="cert", help="Certificates for TLS: an authority, nodes and users.", no_args_is_help=True)

Folder: TypeAlias = Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Where the authority is.")]
FOLDER_DEFAULT = Path("certificates")


@cert_app.callback()
def cert() -> None:
    """Certificates for TLS: an authority, nodes and users."""


@cert_app.command("init")
def init(
    folder: Folder = FOLDER_DEFAULT,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="The cluster_name of its nodes.")
    ] = "flotilla",
    days: Annotated[int, typer.Option("--days", help="How long it is valid.")] = CA_DAYS,
    as_json: AsJson = False,
) -> None:
    """Make a certificate authority for one cluster: ca.crt, which all trust, and ca.key, which nobody may get.

    Example: `flotilla cert init --cluster shop`
    """
    Authority.create(folder, cluster, days)
    print_done(
        {"certificate": str(folder / "ca.crt"), "key": str(folder / "ca.key"), "cluster": cluster},
        f"{folder / 'ca.crt'}: the authority of cluster {cluster}. Keep {folder / 'ca.key'} to yourself.",
        as_json=as_json,
    )


@cert_app.command("issue")
def issue(
    node: Annotated[
        int | None, typer.Option("--node", metavar="ID", min=1, help="For the node of this id.", show_default=False)
    ] = None,
    hosts: Annotated[
        list[str],
        typer.Option(
            "--host", metavar="NAME", help="A name or address by which clients call the node.", show_default=False
        ),
    ] = [],  # noqa: B006 - typer copies it.
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="For the user of this name.", show_default=False)
    ] = None,
    folder: Folder = FOLDER_DEFAULT,
    days: Annotated[int, typer.Option("--days", help="How long it is valid.")] = DAYS,
    replace: Annotated[bool, typer.Option("--replace", help="Issue again what was issued before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Issue a certificate and its key, for a node or for a user.

    A running node takes what replaces its files by itself.

    Example: `flotilla cert issue --node 1 --host node1.example --host 10.0.0.1`
    """
    if (node is None) == (user is None):
        raise InvalidArgumentError("a certificate is for either a --node or a --user")
    if node is not None and not hosts:
        raise InvalidArgumentError("clients check the name of a node: say with --host how they call it")
    if user is not None and hosts:
        raise InvalidArgumentError("--host goes with --node")
    authority = Authority(folder)
    if node is not None:
        issued = authority.issue_node(node, hosts, days, is_replacing=replace)
    else:
        issued = authority.issue_user(user or "", days, is_replacing=replace)
    print_done(
        {"certificate": str(issued.certificate), "key": str(issued.key), "uri": issued.uri},
        f"{issued.certificate} and {issued.key}: {issued.uri}",
        as_json=as_json,
    )


@cert_app.command("show")
def show(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A certificate.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Show whom a certificate names, and until when it is valid.

    Example: `flotilla cert show certificates/node1.crt`
    """
    found = read_certificate(file)
    expires = datetime.fromtimestamp(found.expires_s, UTC).isoformat()
    named = ", ".join((*found.uris, *found.hosts)) or "nobody"
    print_done(
        {"uris": list(found.uris), "hosts": list(found.hosts), "expires": expires, "expires_s": found.expires_s},
        f"{named}; valid until {expires}",
        as_json=as_json,
    )
