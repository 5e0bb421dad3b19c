"""The users that have a password, kept durably as SCRAM's keys; for SCRAM, PLAIN and Kestrel's clients alike.

Looking one up never waits; changes do, come from one thread at a time, and are durable when they return.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from barbicel.codecs.access_file import (
    MAX_ACCESS_FILE_BYTES,
    ScramCredential,
    Users,
    decode_users,
    encode_users,
)
from barbicel.disk import Disk
from barbicel.gateway.access.access_layout import AccessLayout, keep, restore
from barbicel.gateway.access.scram import MECHANISMS, USUAL_SHAPE, Shape, is_password, nobody

__all__ = ["UserFile"]

SECRET_BYTES = 32


class UserFile:
    """users.json and what is in it."""

    def __init__(self, disk: Disk, layout: AccessLayout) -> None:
        """Raises CorruptFile: without its users a server would let nobody in, or have the wrong ones."""
        self._disk = disk
        self._layout = layout
        found = restore(disk, layout.users, MAX_ACCESS_FILE_BYTES, decode_users)
        self._use(found or Users(os.urandom(SECRET_BYTES), {}))

    def _use(self, users: Users) -> None:
        self._users = users
        self._shapes = {
            name: sorted(
                {
                    Shape(one.iterations, len(one.salt))
                    for (_, mechanism), one in users.credentials.items()
                    if mechanism == name
                }
            )
            or [USUAL_SHAPE]
            for name in MECHANISMS
        }

    @property
    def credentials(self) -> Mapping[tuple[str, str], ScramCredential]:
        return self._users.credentials

    def find(self, mechanism: str, user: str) -> tuple[ScramCredential, bool]:
        """The keys of a user, or some that nobody has; and whether there is one."""
        known = self._users.credentials.get((user, mechanism))
        stand_in = nobody(MECHANISMS[mechanism], self._users.secret, user, self._shapes[mechanism])
        return (stand_in, False) if known is None else (known, True)

    def is_password(self, user: str, password: str) -> bool:
        """It takes tens of milliseconds, as many for every user, and for one that there is not."""
        found = [
            is_password(mechanism, credential, password) and is_known
            for name, mechanism in MECHANISMS.items()
            for credential, is_known in (self.find(name, user),)
        ]
        return any(found)

    def change(
        self,
        upserts: Mapping[tuple[str, str], ScramCredential],
        deletions: Iterable[tuple[str, str]] = (),
    ) -> None:
        """By user and mechanism; all of it or nothing. Waits for the disk."""
        credentials: dict[tuple[str, str], ScramCredential] = dict(self._users.credentials)
        credentials.update(upserts)
        for key in deletions:
            credentials.pop(key, None)
        users = self._users._replace(credentials=credentials)
        keep(self._disk, self._layout, self._layout.users, encode_users(users))
        self._use(users)
