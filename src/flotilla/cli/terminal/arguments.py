"""Arguments that many commands have, which a shell completes: topics, groups and nodes of the cluster.

A cluster that does not answer at once has nothing to offer: the shell waits meanwhile, and must not show an error.
"""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from flotilla.types.errors import FlotillaError

if TYPE_CHECKING:
    from flotilla.client.client import Client

_PATIENCE = "1s"


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    return _found(ctx, incomplete, lambda client: [topic.name for topic in client.admin.metadata().topics])


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Those of the topics that the line has so far."""
    named = ctx.params.get("topic") or ()
    topics = (named,) if isinstance(named, str) else named
    return _found(ctx, incomplete, lambda client: {group for topic in topics for group in client.groups(topic)})


def complete_nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    return _found(ctx, incomplete, lambda client: [str(broker.node) for broker in client.admin.metadata().brokers])


def _found(ctx: Any, incomplete: str, names: "Callable[[Client], Iterable[str]]") -> list[str]:
    from flotilla.cli.terminal.profiles import apply_profile
    from flotilla.cli.terminal.servers import DEFAULT_SERVERS, SERVERS_VARIABLE, Cluster

    try:
        apply_profile(ctx.find_root().params.get("profile") or "")
        # A shell completes a line that is not parsed to its end: an option may not have its variable's value yet.
        servers = ctx.params.get("servers") or os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS
        with Cluster(servers, _PATIENCE).connect() as client:
            return sorted(name for name in names(client) if name.startswith(incomplete))
    except (FlotillaError, OSError):
        return []


Topic: TypeAlias = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, autocompletion=complete_topics)]
Group: TypeAlias = Annotated[str, typer.Argument(metavar="GROUP", show_default=False, autocompletion=complete_groups)]
Node: TypeAlias = Annotated[
    int, typer.Argument(metavar="NODE", min=1, show_default=False, autocompletion=complete_nodes)
]
