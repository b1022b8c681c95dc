"""`flotilla node`: look into the data directory of a stopped node, and prepare a damaged one to come back.

`check` opens the store on a disk that is only read, exactly as a start would, and reads every entry. `repair` mends
small files of which one copy is damaged, and sets a store aside that a node must not start with; the node then joins
its cluster like one whose disk was lost. Damage that a start repairs from the other replicas is left to it. `recover`
is for the only node whose data are left.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.cli.recovery.log_reading import read_entries
from flotilla.cli.recovery.node_recovery import Recovery
from flotilla.cli.recovery.node_recovery import recover as recover_survivor
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import print_done, print_json, print_table
from flotilla.cli.terminal.servers import AsJson
from flotilla.codec.batch.facts import span_of
from flotilla.raft.configuration import decode_configuration
from flotilla.runtime.data_dir_identity import (
    COPIED_FILES,
    DataDirIdentity,
    read_identity,
    set_aside,
    store_problem,
)
from flotilla.runtime.path_folder import PathFolder
from flotilla.storage.attachment import Attachment, attach_all
from flotilla.storage.damage.copied_files import damaged_copies, mend_damaged
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.options import StoreOptions
from flotilla.storage.overlay_disk import OverlayDisk
from flotilla.storage.ports import Disk
from flotilla.storage.posix import PosixDisk
from flotilla.storage.snapshots import SnapshotFile
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import NUMBER_MAX

node_app = typer.Typer(name="node", help="Check and repair the data of a stopped node.", no_args_is_help=True)

Directory: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DIR", help="The data directory of a stopped node.", show_default=False)
]


@dataclass(slots=True)
class GroupReport:
    group: int
    first_index: int
    last_index: int
    term: int
    size_bytes: int
    #: Entries that cannot be read: half-open ranges of indexes.
    damaged: list[tuple[int, int]]
    #: Those of them that a power cut may have torn, so that they were never acknowledged.
    doubtful: list[tuple[int, int]]
    #: Voters and learners, as far as known.
    members: list[int]


@dataclass(slots=True)
class Report:
    """What `check` found."""

    #: None: it is lost.
    identity: DataDirIdentity | None = None
    #: Why the node would not start; empty: it would.
    problem: str = ""
    #: Damaged copies of small files whose other copy is intact.
    damaged_copies: list[str] = field(default_factory=list)
    #: Snapshots that cannot be read.
    damaged_snapshots: list[str] = field(default_factory=list)
    #: The last write, if a start drops it as torn.
    dropped_block: str = ""
    groups: list[GroupReport] = field(default_factory=list)

    @property
    def damaged_count(self) -> int:
        return sum(high - low for group in self.groups for low, high in group.damaged)

    @property
    def hopeless(self) -> list[GroupReport]:
        """Groups with damage that a start neither repairs from another member nor drops."""
        node = None if self.identity is None else self.identity.node
        return [
            group
            for group in self.groups
            if group.members == [node] and group.damaged and (group.doubtful or [(NUMBER_MAX, 0)])[0] > group.damaged[0]
        ]


@node_app.command("check")
def check(directory: Directory, as_json: AsJson = False) -> None:
    """Print what a stopped node's data directory holds and what is damaged. Nothing is changed.

    The exit code is 0 if the node can start, also with damage that it repairs from the others, and 1 if it cannot.

    Example: `flotilla node check /var/lib/flotilla`
    """
    report = inspect(directory)
    if as_json:
        print_json(plain_report(report, directory))
    else:
        _show(report, directory)
    if report.problem:
        raise typer.Exit(FAILED.code)


@node_app.command("repair")
def repair(
    directory: Directory,
    force: Annotated[
        bool, typer.Option("--force", help="Also if nothing is damaged, as after a backup was restored.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Mend what one bad sector damaged, or set the store aside, so that the node comes back with `serve --join`.

    Small files of which one copy is damaged are mended. A store that no node can start with is set aside; nothing is
    deleted.

    Example: `flotilla node repair /var/lib/flotilla`
    """
    report = inspect(directory)
    is_set_aside = bool(report.problem) or force
    # Locked: no node runs on it meanwhile.
    disk = PosixDisk(str(directory))
    try:
        mended = mend_damaged(disk, COPIED_FILES)
        folder = str(set_aside(directory)) if is_set_aside else ""
    finally:
        disk.close()
    text = [f"mended: {copy}" for copy in mended]
    if is_set_aside:
        node = "the node, with its --node-id," if report.identity is None else f"node {report.identity.node}"
        text.append(
            f"the store is in {folder} now; start {node} with --data-dir {directory} and --join, and delete that "
            "folder when the node has caught up"
        )
    else:
        report.damaged_copies = []
        text.append(f"the node can start, and its store stays as it is; to do: {_advice(report, directory)}")
    done = {
        "is_repaired": is_set_aside or bool(mended),
        "problem": report.problem,
        "mended": mended,
        "set_aside": folder,
    }
    print_done(done, "\n".join(text), as_json=as_json)


@node_app.command("recover")
def recover(
    directory: Directory,
    accept_data_loss: Annotated[
        bool, typer.Option("--accept-data-loss", help="Do it. Without this, only say what it would do.")
    ] = False,
    cut_damaged: Annotated[
        bool,
        typer.Option(
            "--cut-damaged", help="Drop damaged entries not known to be committed, and all entries that follow them."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a stopped node the only member of its groups, because the disks of a majority are lost for good.

    What only the lost nodes had is gone, also if it was acknowledged. The cluster gets a new id: nodes with old disks
    are refused, and nodes with empty ones come back with `serve --join`. Run it on one node, the one that knows most.

    Example: `flotilla node recover /var/lib/flotilla --accept-data-loss`
    """
    found = recover_survivor(directory, is_accepted=accept_data_loss, may_cut=cut_damaged)
    if as_json:
        print_json({"is_recovered": accept_data_loss, **asdict(found)})
    else:
        _show_recovery(found, directory)
    if not accept_data_loss:
        raise typer.Exit(FAILED.code)


def _show_recovery(found: Recovery, directory: Path) -> None:
    rows = [
        (kept.name, kept.last_index, kept.committed, ", ".join(map(str, kept.voters)) or "-") for kept in found.kept
    ]
    print_table(("partition", "last entry here", "committed", "voters"), rows)
    typer.echo("gone: what these voters stored after the last entry here, also if it was acknowledged")
    for kept in found.kept:
        if kept.cut:
            typer.echo(f"cut: the last {kept.cut} entries of {kept.name} here, from {kept.last_index + 1} on")
    if found.empty:
        typer.echo(f"begin empty: {', '.join(found.empty)}")
    if found.gone:
        typer.echo(f"gone, until their topics are deleted: {', '.join(found.gone)}")
    if found.cluster_id:
        typer.echo(
            f"node {found.node} is the only member of cluster {found.cluster_id} now; start it with --data-dir "
            f"{directory}, and the others with empty data directories and --join"
        )
    else:
        typer.echo("nothing was changed: repeat with --accept-data-loss, on the node that knows most, and on no other")


def inspect(directory: Path) -> Report:
    """Raises InvalidArgumentError if that is not a data directory, StorageFailedError if a node runs on it."""
    data = PathFolder(directory)
    report = Report()
    try:
        report.identity = read_identity(data)
        report.problem = store_problem(data, report.identity)
    except CorruptionError as error:
        report.problem = str(error)
    disk = PosixDisk(str(directory))
    try:
        report.damaged_copies = damaged_copies(disk, COPIED_FILES)
        # Otherwise opening a store with many journal files would flush them all, in memory.
        options = StoreOptions(journal_files_max=1_000_000)
        store = NodeStore.open(OverlayDisk(disk), options, span_of, partial(_attach, report, disk))
        report.dropped_block = store.dropped_block
        report.groups = [_examine(store, store.groups[group]) for group in sorted(store.groups)]
        store.close()
    except CorruptionError as error:
        report.problem = report.problem or str(error)
    finally:
        disk.close()
    return report


def _examine(store: NodeStore, log: SegmentedLog) -> GroupReport:
    """Reads every entry of the log."""
    index, end = log.first_index(), log.last_index() + 1
    while index < end:
        damage = log.damaged.at(index)
        if damage is not None:
            index = damage[1]
            continue
        high = log.damaged.next_from(index) or end
        try:
            index += len(read_entries(store, log, index, min(high, end)))
        except CorruptionError as error:
            log.mark_damaged(max(index, error.low), max(index + 1, error.high))
    recovered = log.recovered()
    configuration = recovered.configuration
    for entry in recovered.configuration_entries:
        configuration = decode_configuration(entry.data)
    return GroupReport(
        log.group,
        log.first_index(),
        log.last_index(),
        log.hard_state.term,
        log.size_bytes(),
        log.damaged.as_list(),
        log.doubtful.as_list(),
        list(configuration.members()),
    )


def _attach(report: Report, disk: Disk, attachments: Sequence[Attachment]) -> None:
    """Notes damaged snapshots: a log goes on without them if it can."""
    report.damaged_snapshots.clear()
    for attachment in attachments:
        for snapshot in attachment.log.snapshots:
            try:
                SnapshotFile(snapshot.group, snapshot.number, snapshot.meta).verify(disk)
            except CorruptionError:
                report.damaged_snapshots.append(snapshot.path)
    attach_all(attachments)


def _advice(report: Report, directory: Path) -> str:
    if report.problem:
        return f"`flotilla node repair {directory}`, then start the node with --join"
    if report.hopeless:
        named = ", ".join(str(group.group) for group in report.hopeless)
        # Beside other nodes it would leave their cluster.
        is_alone = all(group.members == report.hopeless[0].members for group in report.groups)
        cut = f"see what `flotilla node recover {directory} --cut-damaged` drops"
        way_out = cut if is_alone else "delete the topic"
        return f"restore a backup, or {way_out}: no other node has the damaged entries (groups: {named})"
    if report.damaged_copies:
        return f"start the node, or `flotilla node repair {directory}`: either writes the damaged copies again"
    if report.damaged_count:
        return "start the node: it fetches the damaged entries from the other replicas, or drops what nobody has"
    if report.damaged_snapshots:
        return "start the node: it takes the state from its log, an earlier snapshot or the other replicas"
    return "nothing"


def plain_report(report: Report, directory: Path) -> dict[str, object]:
    """For JSON."""
    identity = report.identity
    return {
        "node": identity and identity.node,
        "cluster_name": identity and identity.cluster,
        "cluster_id": identity and identity.cluster_id,
        "incarnation": identity and identity.incarnation,
        "starts": identity and identity.starts,
        "can_start": not report.problem,
        "problem": report.problem,
        "damaged_copies": report.damaged_copies,
        "damaged_entries": report.damaged_count,
        "damaged_snapshots": report.damaged_snapshots,
        "dropped_block": report.dropped_block,
        "advice": _advice(report, directory),
        "groups": [asdict(group) for group in report.groups],
    }


def _show(report: Report, directory: Path) -> None:
    identity = report.identity
    if identity is not None:
        cluster = f"{identity.cluster} ({identity.cluster_id or 'not entered yet'})"
        typer.echo(f"node {identity.node} of cluster {cluster}, started {identity.starts} time(s)")
    if report.groups:
        rows = [
            (
                "metadata" if group.group == METADATA_GROUP else group.group,
                f"{group.first_index}-{group.last_index}",
                group.term,
                group.size_bytes,
                _ranges(group.damaged),
                _ranges(group.doubtful),
            )
            for group in report.groups
        ]
        print_table(("group", "entries", "term", "bytes", "damaged", "perhaps torn"), rows)
    for copy in report.damaged_copies:
        typer.echo(f"damaged: {copy}; the other one is intact")
    for path in report.damaged_snapshots:
        typer.echo(f"damaged: {path}")
    if report.dropped_block:
        typer.echo(f"torn: {report.dropped_block}, the last write; a start drops it")
    typer.echo(f"problem: {report.problem or 'none'}")
    typer.echo(f"to do: {_advice(report, directory)}")


def _ranges(ranges: list[tuple[int, int]]) -> str:
    return ", ".join(f"{low}-{high - 1}" for low, high in ranges) or "-"
