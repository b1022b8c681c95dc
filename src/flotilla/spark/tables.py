"""Topics as tables and streams by their names, with what is archived and what is live as one.

Spark resolves names by its catalog. A plugin for it would be a jar; views of SQL are none. A view has the options of
its topic, so each query over it sees the newest records, and a lake's newest version.
"""

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from flotilla.types.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The schema of the views, unless another one is given.
SCHEMA: Final = "flotilla"
#: The session that has attached the views of a Spark application and schema, and its servers and lake.
_attached: dict[tuple[str, str], tuple[str, tuple[str, str]]] = {}
_SERVERS_DEFAULT: Final = "localhost:7600"
#: The begin of the names of tables of Spark's catalog without options; views give them. No topic's name begins so.
_SOURCE: Final = "__source"
#: Spark refuses others for views that it keeps.
_REFUSED: Final = re.compile(r"[^A-Za-z0-9_]")


def attach(
    spark: "SparkSession",
    servers: str = _SERVERS_DEFAULT,
    *,
    lake: str | None = None,
    schema: str = SCHEMA,
    **options: Any,
) -> dict[str, str]:
    """Makes a view `flotilla.<topic>` of every topic, or of those that match `subscribePattern`, and returns the name
    of each.

    With a lake, rows that are archived come from there and later ones from the log, each once; topics that were deleted
    are in it, too. A topic that is archived with a schema has the decoded columns, unless `includeDecoded` is false.
    `options` are those of the source. Attach again to see new topics, and new fields of schemas.

    Names have only letters, digits and underscores; other characters become underscores. A session that was built with
    `spark.sql.globalTempDatabase=flotilla` has all names as they are, to be written in backquotes.

    All sessions of a Spark application share these views: for other servers or another lake give another `schema`.

    Raises InvalidArgumentError for two topics of one name, and for views that another session has attached elsewhere.
    """
    from flotilla.spark.catalog import all_topics
    from flotilla.spark.options import read_options
    from flotilla.spark.registration import register
    from flotilla.spark.topic_read import topic_read

    register(spark)
    given = {"servers": servers, "includeHeaders": "true", **({"lake": lake} if lake else {}), **options}
    chosen = read_options({name: str(value) for name, value in given.items()})
    given = {name: str(value) for name, value in given.items() if name.lower() != "subscribepattern"}
    is_global = spark.conf.get("spark.sql.globalTempDatabase", None) == schema
    topics = [name for name in all_topics(chosen) if re.fullmatch(chosen.subscribe_pattern or ".*", name)]
    names = {topic: topic if is_global else _REFUSED.sub("_", topic) for topic in topics}
    for topic, name in names.items():
        twins = [other for other in topics if names[other].lower() == name.lower()]
        if twins != [topic]:
            raise InvalidArgumentError(f"topics {' and '.join(twins)} have one name in SQL, {name}")
    _claim(spark, schema, (given["servers"], given.get("lake", "")))
    quoted = SCHEMA if schema == SCHEMA else _quoted(schema)
    if not is_global:
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quoted}")
    for topic, name in names.items():
        own, columns = topic_read(given, topic)
        listed = ", ".join(f"{key} {_text(value)}" for key, value in own.items())
        if is_global:
            spark.sql(
                f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW {_quoted(name)} ({columns}) USING flotilla OPTIONS ({listed})"
            )
        else:
            # One for all views of the same columns.
            source = f"{quoted}.{_SOURCE}_{blake2b(columns.encode(), digest_size=8).hexdigest()}"
            spark.sql(f"CREATE TABLE IF NOT EXISTS {source} ({columns}) USING flotilla")
            spark.sql(f"CREATE OR REPLACE VIEW {quoted}.{_quoted(name)} AS SELECT * FROM {source} WITH ({listed})")
    return {topic: f"{quoted}.{_quoted(name)}" for topic, name in names.items()}


def _claim(spark: "SparkSession", schema: str, place: tuple[str, str]) -> None:
    """Raises InvalidArgumentError when the views are those of another session and another place."""
    from flotilla.spark.registration import session_id

    try:
        application = str(spark.sparkContext.applicationId)
    except Exception:
        # A remote session: this process does not know the others.
        return
    session = session_id(spark)
    owner, attached = _attached.setdefault((application, schema), (session, place))
    if owner == session:
        _attached[application, schema] = session, place
    elif attached != place:
        raise InvalidArgumentError(
            f"another session of this application has attached {schema!r} to {attached[1] or attached[0]}, and they "
            f"share its views: attach to {place[1] or place[0]} with another schema, as schema={schema + '_2'!r}"
        )


def flotilla_stream(
    spark: "SparkSession", topic: str, *, servers: str = _SERVERS_DEFAULT, lake: str | None = None, **options: Any
) -> "DataFrame":
    """A topic as one stream from its first record: what is in the lake, then the log, each record once.

    Restarted from its checkpoint, it continues on whichever side has the next offset. `options` are those of the
    source; limit the first micro-batches with `maxOffsetsPerTrigger`.
    """
    from flotilla.spark.registration import register

    register(spark)
    reader = spark.readStream.format("flotilla").option("servers", servers).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
    if lake is not None:
        reader = reader.option("lake", lake)
    return reader.options(**options).load()


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
