"""A lake: a store of Parquet files, and the manifests that list them.

    <lake>/topic=orders/date=2030-01-31/<partition>-<first offset>-<token>.parquet
    <lake>/_manifest/00000000000000000007.json

Owns the names of files; `manifest.py` owns the meaning of a manifest. A new version never replaces an existing one, so
the second of two concurrent archives fails. A store that cannot guarantee that allows one archive per lake.
"""

from typing import Final

from flotilla.spark.lake.manifest import Manifest, decode, encode
from flotilla.spark.lake.store import Store
from flotilla.types.errors import CorruptionError

MANIFEST_FOLDER: Final = "_manifest"
#: For readers that began with an older version.
VERSIONS_KEPT: Final = 32
_SUFFIX: Final = ".json"


class Lake(Store):
    def latest(self) -> Manifest:
        """The newest manifest; an empty one if there is none. Raises CorruptionError."""
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
        """Makes it the newest manifest. Raises AlreadyExistsError when the version exists."""
        self.put(_path(manifest.version), encode(manifest), is_new=True)
        self.remove(map(_path, self._versions()[:-VERSIONS_KEPT]))

    def list_files(self) -> list[str]:
        """Every data file in the folder, whether a manifest lists it or not."""
        return list(self.list(suffix=".parquet"))

    def _versions(self) -> list[int]:
        names = (path.rpartition("/")[2][: -len(_SUFFIX)] for path in self.list(MANIFEST_FOLDER, suffix=_SUFFIX))
        return sorted(int(name) for name in names if name.isdecimal())


def _path(version: int) -> str:
    return f"{MANIFEST_FOLDER}/{version:020}{_SUFFIX}"
