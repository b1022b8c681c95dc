"""`flotilla profile`: name clusters, and choose between them."""

import os
from typing import Annotated, TypeAlias

import typer

from flotilla.cli.terminal.output import note, print_done, print_json, print_table
from flotilla.cli.terminal.profiles import profiles_file, read_profiles, write_profiles
from flotilla.cli.terminal.servers import AsJson
from flotilla.types.address import read_addresses
from flotilla.types.errors import NotFoundError

profile_app = typer.Typer(name="profile", help="Name clusters, and choose between them.", no_args_is_help=True)


def complete_profiles(incomplete: str) -> list[str]:
    return sorted(name for name in read_profiles()["profiles"] if name.startswith(incomplete))


Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", show_default=False, autocompletion=complete_profiles)]


@profile_app.command("set")
def set_profile(
    name: Name,
    servers: Annotated[
        str, typer.Option("--servers", "-s", metavar="HOST:PORT,...", help="Brokers to ask first.", show_default=False)
    ],
    user: Annotated[str, typer.Option("--user", help="Who you are there.", show_default=False)] = "",
    password_file: Annotated[
        str, typer.Option("--password-file", metavar="FILE", help="The file with the password.", show_default=False)
    ] = "",
    token_file: Annotated[
        str, typer.Option("--token-file", metavar="FILE", help="The file with a token.", show_default=False)
    ] = "",
    ca: Annotated[
        str, typer.Option("--tls-ca", metavar="FILE", help="The authorities of the brokers.", show_default=False)
    ] = "",
    certificate: Annotated[
        str, typer.Option("--tls-certificate", metavar="FILE", help="Your certificate.", show_default=False)
    ] = "",
    key: Annotated[str, typer.Option("--tls-key", metavar="FILE", help="The key of it.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Create a profile, or replace it. The first one is chosen.

    Example: `flotilla profile set production --servers node1:7600,node2:7600 --tls-ca ca.crt`
    """
    read_addresses(servers)
    files = {
        "password_file": password_file,
        "token_file": token_file,
        "tls_ca": ca,
        "tls_certificate": certificate,
        "tls_key": key,
    }
    paths = {field: os.path.abspath(file) for field, file in files.items() if file}
    fields = {"servers": servers, "user": user, **paths}
    kept = read_profiles()
    kept["profiles"][name] = {field: value for field, value in fields.items() if value}
    kept["chosen"] = kept["chosen"] or name
    write_profiles(kept)
    print_done({"name": name, **kept["profiles"][name]}, f"profile {name} is in {profiles_file()}", as_json=as_json)


@profile_app.command("use")
def use(name: Name, as_json: AsJson = False) -> None:
    """Choose the profile of the commands that name no other (`flotilla --profile NAME`).

    Example: `flotilla profile use production`
    """
    kept = read_profiles()
    if name not in kept["profiles"]:
        raise NotFoundError(f"there is no profile {name!r}; `flotilla profile list` shows them")
    write_profiles({**kept, "chosen": name})
    print_done({"chosen": name}, f"commands go to {kept['profiles'][name]['servers']}", as_json=as_json)


@profile_app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles; a star is at the chosen one.

    Example: `flotilla profile list`
    """
    kept = read_profiles()
    if as_json:
        print_json(kept)
    elif not kept["profiles"]:
        note("there are no profiles; `flotilla profile set NAME --servers HOST:PORT` makes one")
    else:
        shown = ("servers", "user", "tls_ca")
        rows = [
            (name, "*" if name == kept["chosen"] else "", *(fields.get(each, "") for each in shown))
            for name, fields in sorted(kept["profiles"].items())
        ]
        print_table(("profile", "chosen", *shown), rows)


@profile_app.command("remove")
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove a profile. Safe to repeat.

    Example: `flotilla profile remove staging`
    """
    kept = read_profiles()
    is_known = kept["profiles"].pop(name, None) is not None
    write_profiles({**kept, "chosen": "" if kept["chosen"] == name else kept["chosen"]})
    text = f"profile {name} is removed" if is_known else f"there was no profile {name}"
    print_done({"name": name, "removed": is_known}, text, as_json=as_json)
