"""The `flotilla` command: its table of verbs, and the exit code of an error.

A verb's module holds functions with typed parameters, which typer turns into arguments and help. It is loaded when
the verb is used: most verbs need a part of the package that the others do not, and a command in a script should start
quickly.
"""

import errno
import gc
import os
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command as make_command

from flotilla.cli.terminal.exit_codes import FAILED, INTERRUPTED, advice, exit_code
from flotilla.cli.terminal.output import complain, print_done
from flotilla.cli.terminal.plain_help import plain_help, plain_parameters
from flotilla.cli.terminal.servers import AsJson
from flotilla.security.client_tls import VARIABLES
from flotilla.types.errors import FlotillaError
from flotilla.types.version import __version__

#: Each verb, in the order of the help, with its function or its group of verbs.
VERBS = {
    "serve": "serve:serve",
    "proxy": "proxy:proxy",
    "cert": "cert:cert_app",
    "cluster": "cluster:cluster_app",
    "node": "node:node_app",
    "backup": "recovery.command:backup_app",
    "topic": "topic:topic_app",
    "produce": "produce:produce",
    "consume": "consume:consume",
    "worker": "worker:worker",
    "task": "task:task_app",
    "schedule": "schedule:schedule_app",
    "group": "group:group_app",
    "dlq": "dlq:dlq_app",
    "transaction": "transaction:transaction_app",
    "user": "security.user:user_app",
    "acl": "security.acl:acl_app",
    "role": "security.role:role_app",
    "quota": "security.quota:quota_app",
    "peek": "messages.single:peek",
    "why": "messages.single:why",
    "release": "messages.single:release",
    "reject": "messages.single:reject",
    "deliver-now": "messages.single:deliver_now",
    "cancel": "messages.single:cancel",
    "shell": "shell.command:shell",
    "schema": "pipelines.schema:schema_app",
    "archive": "pipelines.archive:archive_app",
    "pipeline": "pipelines.pipeline:pipeline_app",
    "demo": "demo.command:demo",
    "chaos": "chaos.command:chaos",
    "bench": "bench.command:bench",
    "sim": "sim.command:sim",
    "config": "config:config_app",
    "debug": "debug:debug_app",
    "profile": "profile:profile_app",
    "version": "app:version",
}


#: A node has settings of its own, and a damaged file of profiles must be possible to mend.
_WITHOUT_PROFILE = ("serve", "profile", "version", "config", "sim", "cert")


class Verbs(TyperGroup):
    """Loads a verb when it is used, and turns typed errors into one line and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_params(self, ctx: Any) -> list[Any]:
        return plain_parameters(super().get_params(ctx), ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = load_verb(cmd_name)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in VERBS:
            # Typer suggests a close name only from loaded commands.
            for name in VERBS:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except FlotillaError as error:
            complain(f"{error}{advice(error)}")
            raise typer.Exit(exit_code(error)) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                # The reader of a pipe has closed it; typer ends quietly.
                raise
            complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
            raise typer.Exit(FAILED.code) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED.code) from None


def find_verb(name: str) -> Callable[..., None] | typer.Typer:
    """The function of a verb, or its group of verbs."""
    module, _, attribute = VERBS[name].partition(":")
    found: Callable[..., None] | typer.Typer = getattr(import_module(f"flotilla.cli.{module}"), attribute)
    return found


def load_verb(name: str) -> Any:
    """A verb as typer's command object."""
    found = find_verb(name)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    command = make_command(found)
    command.name = name
    plain_help(command)
    if not gc.isenabled():
        # What is loaded now stays: the collector need not look at it again.
        gc.freeze()
        gc.enable()
    return command


def version(as_json: AsJson = False) -> None:
    """Print the version.

    Example: `flotilla version --json`
    """
    print_done({"version": __version__}, __version__, as_json=as_json)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


app = typer.Typer(
    name="flotilla",
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    ctx: typer.Context,
    is_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    profile: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The cluster of this profile (`flotilla profile`).", show_default="the chosen one"
        ),
    ] = "",
    tls_ca: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Speak TLS with brokers whose certificates are of the authorities in this file "
            "(or in FLOTILLA_CLIENT_CA).",
            show_default="no TLS",
        ),
    ] = "",
    tls_certificate: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="The certificate that says who you are, for brokers that ask for one "
            "(or FLOTILLA_CLIENT_CERTIFICATE).",
            show_default="none",
        ),
    ] = "",
    tls_key: Annotated[
        str, typer.Option(metavar="FILE", help="The key of it (or FLOTILLA_CLIENT_KEY).", show_default="none")
    ] = "",
) -> None:
    """A message queue in which every partition is its own Raft group.

    The options for TLS are those of a client, and stand in front of the command: `flotilla --tls-ca ca.crt topic list`.
    """
    if ctx.invoked_subcommand not in _WITHOUT_PROFILE:
        from flotilla.cli.terminal.profiles import apply_profile

        apply_profile(profile)
    for name, value in zip(VARIABLES, (tls_ca, tls_certificate, tls_key), strict=True):
        if value:
            # Every client of this process, and of those that it starts, finds it there.
            os.environ[name] = os.path.abspath(value)


def main() -> None:
    app(prog_name="flotilla")
