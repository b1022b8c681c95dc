"""A lake: a store of Parquet files, and the manifests that say which of them count.

    <lake>/topic=orders/date=2030-01-31/<partition>-<first offset>-<token>.parquet
    <lake>/_manifest/00000000000000000007.json

Owns the names; what a manifest means is `manifest.py`'s. A new version never takes the place of one that is there, so
of two archives that write at once one is told; where a store cannot do that, one archive per lake is a rule for its
operator.
"""

from typing import Final

from flotilla.spark.lake.manifest import Manifest, decode, encode
from flotilla.spark.lake.store import Store
from flotilla.types.errors import CorruptionError

MANIFEST_FOLDER: Final = "_manifest"
#: Versions of the manifest that stay, for readers that began a while ago.
VERSIONS_KEPT: Final = 32
_SUFFIX: Final = ".json"


class Lake(Store):
    def latest(self) -> Manifest:
        """The newest one; an empty one when there is none. Raises CorruptionError when it is damaged."""
        versions = self._versions()
        if not versions:
            return Manifest()
        data = self.read(_path(versions[-1]))
        if data is None:
            raise CorruptionError(f"manifest {versions[-1]} cannot be read")
        manifest = decode(data)
        if manifest.version != versions[-1]:
            raise CorruptionError(f"manifest {versions[-1]} says that it is version {manifest.version}")
        return manifest

    def commit(self, manifest: Manifest) -> None:
        """Makes it the newest one. Raises AlreadyExistsError when its version was taken."""
        self.put(_path(manifest.version), encode(manifest), is_new=True)
        self.remove(map(_path, self._versions()[:-VERSIONS_KEPT]))

    def list_files(self) -> list[str]:
        """Every data file in the folder, whether a manifest names it or not."""
        return list(self.list(suffix=".parquet"))

    def _versions(self) -> list[int]:
        names = (path.rpartition("/")[2][: -len(_SUFFIX)] for path in self.list(MANIFEST_FOLDER, suffix=_SUFFIX))
        return sorted(int(name) for name in names if name.isdecimal())


def _path(version: int) -> str:
    return f"{MANIFEST_FOLDER}/{version:020}{_SUFFIX}"
