"""The whole area: Flotilla first, then every peer that is installed, then one against the other."""

from bench.broker import end_to_end, failover, flotilla, one_by_one, pipelined, replay
from bench.broker.beside import AREA
from bench.broker.versus import contests
from bench.figure import Absence, Figure
from bench.options import BenchOptions
from bench.peers import PEERS
from bench.subject import Subject
from flotilla.cli.probes import scratch


def measure(options: BenchOptions) -> list[Figure | Absence]:
    with scratch(options.folder, "brokers") as folder, flotilla.started(folder) as subject:
        figures = measure_subject(subject, options)
        figures += pipelined.measure_bulk(subject, options)
    figures += failover.measure(options)
    absences = []
    synced: list[str] = []
    for peer in PEERS:
        missing = peer.missing()
        if missing:
            absences.append(Absence(AREA, peer.product, "not installed", f"{peer.product} needs {missing}"))
            continue
        for is_synced in peer.settings:
            with scratch(options.folder, peer.product) as folder, peer.started(folder, is_synced=is_synced) as other:
                figures += measure_subject(other, options)
                synced += [other.name] if other.is_synced else []
    return [*figures, *contests(figures, synced), *absences]


def measure_subject(subject: Subject, options: BenchOptions) -> list[Figure]:
    return [
        *one_by_one.measure(subject, options),
        *pipelined.measure(subject, options),
        *replay.measure(subject, options),
        *end_to_end.measure(subject, options),
    ]
