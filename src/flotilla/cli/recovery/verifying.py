"""What `flotilla backup verify` does: it reads everything that a backup needs, as a restore would."""

from dataclasses import dataclass, field

from flotilla.cli.recovery.manifest import KeptLog, Manifest
from flotilla.cli.recovery.places import Place
from flotilla.cli.recovery.restoring import entries_of, replay_metadata
from flotilla.codec.batch.facts import facts_of
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.errors import CorruptionError, FlotillaError


@dataclass(slots=True)
class Verified:
    backup: int
    created_ms: int
    cluster_id: str
    partitions: int = 0
    entries: int = 0
    size_bytes: int = 0
    #: A sentence for each log that cannot be restored; none: all can.
    problems: list[str] = field(default_factory=list)


def verify(place: Place, manifest: Manifest) -> Verified:
    found = Verified(manifest.number, manifest.created_ms, manifest.cluster_id)
    metadata, *partitions = manifest.logs
    found.partitions = len(partitions)
    found.size_bytes = sum(file.size_bytes for file in manifest.files())
    for log in partitions:
        try:
            _verify_log(place, log, found)
        except FlotillaError as error:
            found.problems.append(f"{log.name}: {error}")
    try:
        machine = replay_metadata(place, metadata)
        if machine.state.cluster.cluster_id != manifest.cluster_id:
            raise CorruptionError(f"they belong to cluster {machine.state.cluster.cluster_id}")
        found.entries += metadata.last_index - metadata.base_index
    except FlotillaError as error:
        found.problems.append(f"metadata: {error}")
    return found


def _verify_log(place: Place, log: KeptLog, found: Verified) -> None:
    for _ in entries_of(place, log):
        found.entries += 1
    if log.snapshot is not None:
        PartitionMachine(facts_of).decode(b"".join(part.read(place) for part in log.snapshot.parts))
