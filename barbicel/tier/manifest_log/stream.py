"""One stream's manifest: the log on this machine and what of it is in the object store.

Its invariant is `LocalStream`'s; what goes to the store is only what is sealed and whole here. One of
`upload`, `reconcile` and `compact` runs at a time, and appends go on meanwhile.
"""

from __future__ import annotations

from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.compaction import Compaction, compact
from barbicel.tier.manifest_log.local_stream import LocalStream
from barbicel.tier.manifest_log.reconciliation import Reconciliation, reconcile
from barbicel.tier.manifest_log.uploading import upload_all
from barbicel.tier.object_store import ObjectStore

__all__ = ["ManifestStream"]


class ManifestStream(LocalStream):
    """See the module. Any thread may call; what asks the store waits for it."""

    def upload(self, store: ObjectStore, keys: Keys) -> int:
        """Put sealed chunks and the newest snapshot that are not in the store; returns how many objects.

        Raises StoreError, CorruptManifest (a damaged chunk is never uploaded) or DiskError. Calling it again
        goes on where it stopped.
        """
        with self.store_mutex:
            return upload_all(self, store, keys)

    def reconcile(self, store: ObjectStore, keys: Keys) -> Reconciliation:
        """Hold the store against the manifest; on return the marks of segments are durable."""
        with self.store_mutex:
            return reconcile(self, store, keys)

    def compact(self, store: ObjectStore, keys: Keys) -> Compaction:
        """Bundle chunk objects once there are enough, and finish what an interrupted run has left."""
        with self.store_mutex:
            return compact(self, store, keys)
