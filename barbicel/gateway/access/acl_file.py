"""The ACLs, kept durably. Reading never waits; changes do, and come from one thread at a time."""

from __future__ import annotations

from collections.abc import Iterable

from barbicel.codecs.access_file import MAX_ACCESS_FILE_BYTES, decode_acls, encode_acls
from barbicel.codecs.kafka.acls import Acl
from barbicel.disk import Disk
from barbicel.gateway.access.access_layout import AccessLayout, keep, restore

__all__ = ["AclFile"]


class AclFile:
    """acls.json and what is in it."""

    def __init__(self, disk: Disk, layout: AccessLayout) -> None:
        """Raises CorruptFile: without its ACLs a server would let everybody in, or nobody."""
        self._disk = disk
        self._layout = layout
        self.acls = restore(disk, layout.acls, MAX_ACCESS_FILE_BYTES, decode_acls) or frozenset()

    def change(self, created: Iterable[Acl], deleted: Iterable[Acl] = ()) -> frozenset[Acl]:
        """All ACLs as they are then; on return they survive a power cut."""
        acls = (self.acls | frozenset(created)) - frozenset(deleted)
        if acls != self.acls:
            keep(self._disk, self._layout, self._layout.acls, encode_acls(acls))
            self.acls = acls
        return acls
