"""The options of a run: sizes and folders."""

import os
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BenchOptions:
    #: A folder on the disk that is to be measured.
    folder: Path
    quick: bool = False
    #: Where figures and pictures go; without it, beside what is measured.
    results: Path | None = None
    #: Products that are measured beside Flotilla; None: all that are installed.
    peers: tuple[str, ...] | None = None
    #: Of every contestant.
    nodes: int = 3
    contest_rounds: int = 3
    #: Failovers of each kind.
    failovers: int = 10
    #: Size of the large log.
    log_gb: float = 1.0
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def rounds(self) -> int:
        return 2 if self.quick else 5

    def pick(self, *, quick: int, full: int) -> int:
        return quick if self.quick else full

    def results_path(self, name: str) -> Path:
        """Without an ending; all files of one run begin alike."""
        return (self.results or self.folder) / f"{self.started:%Y%m%d-%H%M%S}-{name}"

    def machine(self) -> str:
        load = os.getloadavg()[0]
        return f"{os.cpu_count()} processors, Python {platform.python_version()}, load {load:.1f}"
