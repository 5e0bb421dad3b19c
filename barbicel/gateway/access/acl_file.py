"""The ACLs, kept durably. Reading never waits; changes do, and come from one thread at a time."""

from __future__ import annotations

from collections.abc import Iterable

from barbicel.codecs.access_file import MAX_ACCESS_FILE_BYTES, decode_acls, encode_acls
from barbicel.codecs.kafka.acls import Acl
from barbicel.disk import Disk
from barbicel.gateway.access.access_layout import AccessLayout, keep, restore
from barbicel.gateway.broker.topic_errors import InvalidRequest

__all__ = ["AclFile"]

# Each client's first request looks at those about its resource.
MAX_ACLS = 50_000


class AclFile:
    """acls.json and what is in it."""

    def __init__(self, disk: Disk, layout: AccessLayout) -> None:
        """Raises CorruptFile: without its ACLs a server would let everybody in, or nobody."""
        self._disk = disk
        self._layout = layout
        self.acls = restore(disk, layout.acls, MAX_ACCESS_FILE_BYTES, decode_acls) or frozenset()

    def change(self, created: Iterable[Acl], deleted: Iterable[Acl] = ()) -> frozenset[Acl]:
        """All ACLs as they are then; on return they survive a power cut. Raises InvalidRequest if there would
        be too many."""
        acls = (self.acls | frozenset(created)) - frozenset(deleted)
        if len(acls) > max(MAX_ACLS, len(self.acls)):
            raise InvalidRequest(f"more than {MAX_ACLS} ACLs")
        if acls != self.acls:
            keep(self._disk, self._layout, self._layout.acls, encode_acls(acls))
            self.acls = acls
        return acls
