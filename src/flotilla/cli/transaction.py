"""`flotilla transaction`: list open and waiting transactions, abort one, and forget one that can never end."""

from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from flotilla.cli.terminal.arguments import complete_topics
from flotilla.cli.terminal.output import age, note, print_done, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, Cluster, find_topic, takes_cluster
from flotilla.cli.terminal.start_point import now_ms
from flotilla.types.errors import InvalidArgumentError

transaction_app = typer.Typer(name="transaction", help="List, abort and forget transactions.", no_args_is_help=True)

Id: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The id of the transaction.", show_default=False)]
Topic: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--topic", "-t", help="List what is staged in this topic.", show_default=False, autocompletion=complete_topics
    ),
]

_AWAITED = ("transaction", "application", "version", "committed", "waits for")
_OPEN = ("transaction", "partition", "begun", "limit", "records", "acks")


@transaction_app.command("list")
@takes_cluster
def list_transactions(cluster: Cluster, topic: Topic = None, as_json: AsJson = False) -> None:
    """List committed transactions that wait for partitions, or those that are open in a topic.

    Example: `flotilla transaction list --topic orders`
    """
    if topic is not None:
        _list_open(cluster, topic, as_json)
        return
    with cluster.connect() as client:
        found = client.admin.transactions()
    if as_json:
        print_json(asdict(found))
        return
    rows = [
        (
            each.transaction_id,
            each.application_id or "-",
            each.version if each.application_id else "-",
            age(now_ms() - each.decided_at_ms),
            ", ".join([f"{name}/{number}" for name, number in each.partitions]),
        )
        for each in found.awaited
    ]
    if rows:
        print_table(_AWAITED, rows)
    note(
        f"{found.awaited_count} committed transactions wait for partitions; {found.remembered_count} decisions and "
        f"{found.application_count} applications are remembered, {found.idle_application_count} are idle and forgotten"
    )


def _list_open(cluster: Cluster, topic: str, as_json: bool) -> None:
    with cluster.connect() as client:
        partitions = [place.number for place in find_topic(client, topic).partitions]
        found = [(number, each) for number in partitions for each in client.admin.open_transactions(topic, number)]
    if as_json:
        print_json([{"partition": number, **asdict(each)} for number, each in found])
    elif not found:
        note(f"{topic} has no open transactions")
    else:
        print_table(
            _OPEN,
            [
                (
                    each.transaction_id,
                    number,
                    age(now_ms() - each.begun_ms),
                    age(each.timeout_ms),
                    each.record_count,
                    each.ack_count,
                )
                for number, each in found
            ],
        )


@transaction_app.command("abort")
@takes_cluster
def abort(cluster: Cluster, transaction_id: Id, as_json: AsJson = False) -> None:
    """Abort a transaction that is not decided: what it has staged is dropped.

    Example: `flotilla transaction abort job-7/42`
    """
    with cluster.connect() as client:
        client.abort_transaction(transaction_id)
    print_done({"aborted": transaction_id}, f"transaction {transaction_id} is aborted", as_json=as_json)


@transaction_app.command("forget")
@takes_cluster
def forget(
    cluster: Cluster,
    transaction_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A committed transaction.", show_default=False)
    ] = None,
    application: Annotated[
        str | None, typer.Option("--application", help="Forget an application's versions.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give up on partitions that never come back, or forget the versions of an application.

    A partition that comes back after all drops its part of the transaction. Each version of a forgotten application
    can be committed again.

    Example: `flotilla transaction forget --application job-7`
    """
    if (transaction_id is None) == (application is None):
        raise InvalidArgumentError("name a transaction or an application")
    with cluster.connect() as client:
        if transaction_id is not None:
            client.admin.forget_transaction(transaction_id)
        elif application is not None:
            client.admin.forget_application(application)
    name = transaction_id or application
    print_done({"forgotten": name}, f"{name} is forgotten", as_json=as_json)
