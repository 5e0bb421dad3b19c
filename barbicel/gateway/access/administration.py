"""Users and ACLs as operators manage them, of a running server by Kafka and of a stopped one in its files.

The first user is made in the files: nobody could log in to make it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from barbicel.codecs.kafka.acls import Acl, Operation, Pattern, Permission, Resource
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.access.access_layout import AccessLayout
from barbicel.gateway.access.acl_filter import AclFilter
from barbicel.gateway.access.scram import ITERATIONS, MECHANISMS, SALT_BYTES, credential_of_password
from barbicel.gateway.access.users import UserFile
from barbicel.gateway.broker.data_layout import DataLayout

__all__ = ["AdministrationRefused", "Known", "RunningServer", "StoppedDirectory", "UserAdministration"]


class AdministrationRefused(BarbicelError):
    """The server said no, or could not be reached."""


class Known(NamedTuple):
    """A user, and how it may log in."""

    user: str
    mechanism: str
    iterations: int


class UserAdministration(Protocol):
    def set_password(self, user: str, password: str, mechanisms: Sequence[str]) -> None: ...

    def delete(self, user: str) -> None:
        """Raises AdministrationRefused if there is none."""

    def users(self) -> list[Known]: ...


class StoppedDirectory:
    """The files of a data directory that no server has open."""

    def __init__(self, users: UserFile) -> None:
        self._users = users

    @classmethod
    @contextmanager
    def open(cls, disk: Disk, directory: str, *, is_made: bool) -> Iterator[StoppedDirectory]:
        """`is_made`: if there is none. Otherwise raises AdministrationRefused. LogLocked if a server runs."""
        layout = DataLayout(directory)
        if not is_made and not disk.exists(directory):
            raise AdministrationRefused("there is no data directory", path=directory)
        disk.make_directory(layout.temporaries)
        lock = disk.lock(layout.lock)
        try:
            yield cls(UserFile(disk, AccessLayout(directory)))
        finally:
            lock.release()

    def set_password(self, user: str, password: str, mechanisms: Sequence[str]) -> None:
        self._users.change(
            {
                (user, name): credential_of_password(MECHANISMS[name], password, os.urandom(SALT_BYTES))
                for name in mechanisms
            }
        )

    def delete(self, user: str) -> None:
        found = [key for key in self._users.credentials if key[0] == user]
        if not found:
            raise AdministrationRefused(f"there is no user {user!r}")
        self._users.change({}, found)

    def users(self) -> list[Known]:
        return [Known(*key, one.iterations) for key, one in sorted(self._users.credentials.items())]


class RunningServer:
    """A server, by kafka-python's admin client, which stays whose it is."""

    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def set_password(self, user: str, password: str, mechanisms: Sequence[str]) -> None:
        from kafka.admin import (
            ScramMechanism,
            UserScramCredentialUpsertion,
        )

        self._alter(
            [
                UserScramCredentialUpsertion(
                    user,
                    ScramMechanism(MECHANISMS[name].number),
                    password,
                    iterations=ITERATIONS,
                    salt=os.urandom(SALT_BYTES),
                )
                for name in mechanisms
            ]
        )

    def delete(self, user: str) -> None:
        from kafka.admin import ScramMechanism, UserScramCredentialDeletion

        found = [known for known in self.users() if known.user == user]
        if not found:
            raise AdministrationRefused(f"there is no user {user!r}")
        self._alter(
            [
                UserScramCredentialDeletion(user, ScramMechanism(MECHANISMS[known.mechanism].number))
                for known in found
            ]
        )

    def _alter(self, alterations: Sequence[Any]) -> None:
        with _refusing():
            outcomes = self._admin.alter_user_scram_credentials(alterations)
        for user, error in outcomes.items():
            if error is not None:
                raise AdministrationRefused(f"{user}: {error}")

    def users(self) -> list[Known]:
        names = {one.number: one.name for one in MECHANISMS.values()}
        with _refusing():
            found = self._admin.describe_user_scram_credentials()
        return sorted(
            Known(user, names[int(info["mechanism"])], info["iterations"])
            for user, known in found.items()
            for info in known["credential_infos"]
        )

    # --- ACLs -----------------------------------------------------------------------------------------

    def create_acls(self, acls: Sequence[Acl]) -> None:
        with _refusing():
            outcomes = self._admin.create_acls([_their_acl(acl) for acl in acls])
        for error in outcomes["failed"]:
            raise AdministrationRefused(f"{error.__name__}: {error.description}")

    def acls(self, wanted: AclFilter) -> list[Acl]:
        with _refusing():
            found, _ = self._admin.describe_acls(_their_filter(wanted))
        return sorted(map(_our_acl, found))

    def delete_acls(self, wanted: AclFilter) -> list[Acl]:
        """Those that are gone."""
        with _refusing():
            ((_, found, error),) = self._admin.delete_acls([_their_filter(wanted)])
        if error.errno:
            raise AdministrationRefused(f"{error.__name__}: {error.description}")
        return sorted(map(_our_acl, found))


@contextmanager
def _refusing() -> Iterator[None]:
    """The client's errors as ours."""
    from kafka.errors import KafkaError

    try:
        yield
    except (KafkaError, OSError) as error:
        # What the server says for itself comes first, and it may say nothing.
        said = (error.args and error.args[0]) or getattr(error, "description", "")
        kind = type(error).__name__.removesuffix("Error")
        raise AdministrationRefused(f"{said} ({kind})" if said else kind) from error


def _their_acl(acl: Acl) -> Any:
    from kafka import admin as theirs

    pattern = theirs.ResourcePattern(
        theirs.ResourceType(acl.resource), acl.name, theirs.ACLResourcePatternType(acl.pattern)
    )
    return theirs.ACL(
        acl.principal,
        acl.host,
        theirs.ACLOperation(acl.operation),
        theirs.ACLPermissionType(acl.permission),
        pattern,
    )


def _their_filter(wanted: AclFilter) -> Any:
    from kafka import admin as theirs

    pattern = theirs.ResourcePatternFilter(
        theirs.ResourceType(wanted.resource), wanted.name, theirs.ACLResourcePatternType(wanted.pattern)
    )
    return theirs.ACLFilter(
        wanted.principal,
        wanted.host,
        theirs.ACLOperation(wanted.operation),
        theirs.ACLPermissionType(wanted.permission),
        pattern,
    )


def _our_acl(theirs: Any) -> Acl:
    about = theirs.resource_pattern
    return Acl(
        Resource(about.resource_type),
        about.resource_name,
        Pattern(about.pattern_type),
        theirs.principal,
        theirs.host,
        Operation(theirs.operation),
        Permission(theirs.permission_type),
    )
