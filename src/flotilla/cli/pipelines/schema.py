"""`flotilla schema`: schemas of values in the schema topic, with versions and rules of compatibility.

Reads arguments and prints results. The work is in `flotilla.lake`, which is loaded when a verb runs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from flotilla.cli.pipelines.archive import check_lake_parts
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import complain, print_done, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster

if TYPE_CHECKING:
    from flotilla.lake.schema_topic import RegisteredSchema
    from flotilla.lake.values.value_schema import ValueSchema

schema_app = typer.Typer(
    name="schema", help="Schemas of values, with versions and rules of compatibility.", no_args_is_help=True
)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Format: TypeAlias = Annotated[str, typer.Option("--format", help="json, avro or protobuf.", show_default=False)]
File: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--file",
        metavar="FILE",
        help="Columns as in SQL (json), a schema (avro), or a descriptor set (protobuf).",
        exists=True,
        dir_okay=False,
        show_default=False,
    ),
]
Message: TypeAlias = Annotated[
    str, typer.Option("--message", metavar="NAME", help="The full name of the message, for protobuf.")
]
Rule: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--compatibility",
        metavar="RULE",
        help="backward, forward, full or none, for this version and those after it.",
        show_default="that of the last version, else backward",
    ),
]


@schema_app.command("register")
@takes_cluster
def register(
    cluster: Cluster,
    name: Name,
    kind: Format,
    file: File,
    message: Message = "",
    compatibility: Rule = None,
    as_json: AsJson = False,
) -> None:
    """Add a version of a schema, if its values and those of earlier versions can be read by the rule.

    Example: `flotilla schema register orders --format avro --file orders.avsc --compatibility full`
    """
    check_lake_parts()
    from flotilla.lake.schema_topic import SchemaTopic

    schema = _read(kind, file, message)
    with cluster.connect() as client:
        found = SchemaTopic(client, timeout_ms=cluster.timeout_ms).register(name, schema, compatibility)
    print_done(_shown(found), f"{found.name}@{found.version}", as_json=as_json)


@schema_app.command("check")
@takes_cluster
def check(
    cluster: Cluster,
    name: Name,
    kind: Format,
    file: File,
    message: Message = "",
    compatibility: Rule = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a schema could become the next version. The exit code is 1 if it could not.

    Example: `flotilla schema check orders --format avro --file orders.avsc`
    """
    check_lake_parts()
    from flotilla.lake.schema_topic import SchemaTopic

    schema = _read(kind, file, message)
    with cluster.connect() as client:
        problems = SchemaTopic(client, timeout_ms=cluster.timeout_ms).check(name, schema, compatibility)
    if as_json:
        print_json({"compatible": not problems, "problems": problems})
    else:
        for each in problems:
            complain(each)
        if not problems:
            typer.echo("compatible")
    if problems:
        raise typer.Exit(FAILED.code)


@schema_app.command("list")
@takes_cluster
def list_schemas(cluster: Cluster, as_json: AsJson = False) -> None:
    """List schemas with their newest versions.

    Example: `flotilla schema list`
    """
    check_lake_parts()
    from flotilla.lake.schema_topic import SchemaTopic

    with cluster.connect() as client:
        schemas = SchemaTopic(client, timeout_ms=cluster.timeout_ms)
        found = [schemas.find(name) for name in schemas.names()]
    if as_json:
        print_json([_shown(each) for each in found])
    else:
        rows = [(each.name, each.version, each.schema.format, each.compatibility) for each in found]
        print_table(("name", "version", "format", "compatibility"), rows)


@schema_app.command("show")
@takes_cluster
def show(
    cluster: Cluster,
    reference: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Print the columns of a version of a schema; the newest one, unless it is named. JSON has its definition, too.

    Example: `flotilla schema show orders@2`
    """
    check_lake_parts()
    from flotilla.lake.schema_topic import SchemaTopic
    from flotilla.lake.values.sql_types import write_type

    with cluster.connect() as client:
        found = SchemaTopic(client, timeout_ms=cluster.timeout_ms).find(reference)
    columns = [(field.name, write_type(field.type)) for field in found.schema.type()]
    if as_json:
        print_json(_shown(found) | {"columns": dict(columns), "definition": _definition(found.schema)})
    else:
        print_table((f"{found.name}@{found.version}", "type"), columns)


def _read(kind: str, file: Path, message: str) -> "ValueSchema":
    from flotilla.lake.values.value_schema import ValueSchema

    return ValueSchema(kind, file.read_bytes(), message)


def _shown(found: "RegisteredSchema") -> dict[str, Any]:
    return {
        "name": found.name,
        "version": found.version,
        "format": found.schema.format,
        "message": found.schema.message,
        "compatibility": found.compatibility,
    }


def _definition(schema: "ValueSchema") -> str:
    """As text, or a descriptor set in Base64."""
    from base64 import b64encode

    return b64encode(schema.definition).decode() if schema.message else schema.definition.decode()
