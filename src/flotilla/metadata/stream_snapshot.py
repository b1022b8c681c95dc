"""The table of stream groups as a part of the metadata's snapshot.

Groups by topic and then in the order of their founding, which decides which of them is forgotten first. Owners and
targets are places among the members, counted from 1; 0 is nobody.
"""

from flotilla.metadata.assignment import NOBODY, STRATEGY_BY_NAME
from flotilla.metadata.binary import Reader, Writer
from flotilla.metadata.stream_groups import GroupMember, Share, StreamGroup, StreamGroupTable
from flotilla.types.errors import InvalidArgumentError


def write_streams(writer: Writer, table: StreamGroupTable) -> None:
    groups = table.all_groups()
    writer.integer(table.forgotten_generation)
    writer.integer(len(groups))
    for group in groups:
        _write_group(writer, group)


def read_streams(reader: Reader) -> StreamGroupTable:
    """Raises InvalidArgumentError."""
    table = StreamGroupTable()
    table.forgotten_generation = reader.integer()
    for _ in range(reader.count()):
        table.put(_read_group(reader))
    return table


def _write_group(writer: Writer, group: StreamGroup) -> None:
    writer.integer(group.topic_id)
    writer.text(group.name)
    writer.text(group.strategy)
    writer.integer(group.session_ms)
    writer.integer(group.generation)
    places = {NOBODY: 0}
    writer.integer(len(group.members))
    for place, (name, client) in enumerate(group.members, 1):
        places[name] = place
        writer.text(name)
        writer.text(client)
    writer.integer(len(group.shares))
    for owner, epoch, target in group.shares:
        writer.integer(places[owner])
        writer.integer(epoch)
        writer.integer(places[target])
    writer.integer(group.rebalanced_at_ms)
    writer.text(group.cause)
    writer.integer(group.moved)


def _read_group(reader: Reader) -> StreamGroup:
    topic_id, name, strategy = reader.integer(), reader.text(), reader.text()
    if strategy not in STRATEGY_BY_NAME:
        raise InvalidArgumentError(f"a stream group has an unknown strategy {strategy[:80]!r}")
    session_ms, generation = reader.integer(), reader.integer()
    members = tuple([GroupMember(reader.text(), reader.text()) for _ in range(reader.count())])
    names = (NOBODY, *[member.name for member in members])
    shares = tuple([_read_share(reader, names) for _ in range(reader.count())])
    return StreamGroup(
        topic_id=topic_id,
        name=name,
        strategy=strategy,
        session_ms=session_ms,
        generation=generation,
        members=members,
        shares=shares,
        rebalanced_at_ms=reader.integer(),
        cause=reader.text(),
        moved=reader.integer(),
    )


def _read_share(reader: Reader, names: tuple[str, ...]) -> Share:
    owner, epoch, target = reader.integer(), reader.integer(), reader.integer()
    if owner >= len(names) or target >= len(names):
        raise InvalidArgumentError("a partition of a stream group belongs to no member")
    return Share(names[owner], epoch, names[target])
