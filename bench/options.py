"""How much is measured, and where."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BenchOptions:
    #: A folder on the disk that is to be measured.
    folder: Path
    quick: bool = False

    @property
    def rounds(self) -> int:
        return 2 if self.quick else 5

    def pick(self, *, quick: int, full: int) -> int:
        return quick if self.quick else full
