"""The files of access control: users.json, acls.json and quotas.json. docs/formats/data_directory.md.

A user is kept as the keys of SCRAM (RFC 5802), from which no password can be taken back: stored_key shows
that somebody knows the password, server_key lets the server show that it knows the user.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from barbicel.codecs.checked_json import FORMAT, decode_object, encode_object, typed, whole
from barbicel.codecs.kafka.acls import Acl, Operation, Pattern, Permission, Resource
from barbicel.errors import CorruptFile

__all__ = [
    "MAX_ACCESS_FILE_BYTES",
    "Entity",
    "Quotas",
    "ScramCredential",
    "Users",
    "decode_acls",
    "decode_quotas",
    "decode_users",
    "encode_acls",
    "encode_quotas",
    "encode_users",
]

MAX_ACCESS_FILE_BYTES = 16 << 20


class ScramCredential(NamedTuple):
    """What is known of a user's password, for one mechanism."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


# (user, mechanism) → its keys.
Credentials: TypeAlias = Mapping[tuple[str, str], ScramCredential]


class Users(NamedTuple):
    """`secret` makes the salts of users that there are not, so that asking twice gives the same."""

    secret: bytes
    credentials: Credentials


# Whom a quota is for: ("user", "alice"), ("client-id", None) for the default; sorted by the first.
Entity: TypeAlias = tuple[tuple[str, str | None], ...]
Quotas: TypeAlias = Mapping[Entity, Mapping[str, float]]


def encode_users(users: Users) -> bytes:
    return encode_object(
        {
            "format": FORMAT,
            "secret": _text(users.secret),
            "users": [
                [
                    user,
                    mechanism,
                    _text(one.salt),
                    one.iterations,
                    _text(one.stored_key),
                    _text(one.server_key),
                ]
                for (user, mechanism), one in sorted(users.credentials.items())
            ],
        }
    )


def decode_users(data: bytes) -> Users:
    """Raises CorruptFile unless these are the very bytes that `encode_users` makes."""
    content = _content(data)
    try:
        users = Users(_bytes(content["secret"]), dict(map(_user, content["users"])))
        is_same = encode_users(users) == data
    except (KeyError, TypeError, ValueError) as error:
        raise _senseless(error) from None
    return whole(users, is_same)


def encode_acls(acls: Iterable[Acl]) -> bytes:
    return encode_object({"format": FORMAT, "acls": [_acl_row(acl) for acl in sorted(acls)]})


def decode_acls(data: bytes) -> frozenset[Acl]:
    """Raises CorruptFile unless these are the very bytes that `encode_acls` makes."""
    content = _content(data)
    try:
        acls = frozenset(_acl(*row) for row in content["acls"])
        is_same = encode_acls(acls) == data
    except (KeyError, TypeError, ValueError) as error:
        raise _senseless(error) from None
    return whole(acls, is_same)


def encode_quotas(quotas: Quotas) -> bytes:
    rows = [[[list(part) for part in entity], dict(sorted(of.items()))] for entity, of in quotas.items()]
    # Defaults have no name, which no name can be compared with.
    return encode_object({"format": FORMAT, "quotas": sorted(rows, key=repr)})


def decode_quotas(data: bytes) -> Quotas:
    """Raises CorruptFile unless these are the very bytes that `encode_quotas` makes."""
    content = _content(data)
    try:
        quotas = {
            tuple((typed(kind, str), name) for kind, name in entity): {
                key: typed(value, float) for key, value in of.items()
            }
            for entity, of in content["quotas"]
        }
        is_same = encode_quotas(quotas) == data
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _senseless(error) from None
    return whole(quotas, is_same)


def _content(data: bytes) -> dict[str, Any]:
    return decode_object(data, MAX_ACCESS_FILE_BYTES)


def _senseless(error: Exception) -> CorruptFile:
    # Without what is in it, which nobody needs in a log.
    return CorruptFile(f"the content makes no sense: {type(error).__name__}")


def _user(row: list[Any]) -> tuple[tuple[str, str], ScramCredential]:
    user, mechanism, salt, iterations, stored_key, server_key = row
    credential = ScramCredential(_bytes(salt), typed(iterations, int), _bytes(stored_key), _bytes(server_key))
    return (typed(user, str), typed(mechanism, str)), credential


def _acl_row(acl: Acl) -> list[str]:
    return [
        acl.resource.name,
        acl.name,
        acl.pattern.name,
        acl.principal,
        acl.host,
        acl.operation.name,
        acl.permission.name,
    ]


def _acl(
    resource: str, name: str, pattern: str, principal: str, host: str, operation: str, permission: str
) -> Acl:
    return Acl(
        Resource[resource],
        typed(name, str),
        Pattern[pattern],
        typed(principal, str),
        typed(host, str),
        Operation[operation],
        Permission[permission],
    )


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _bytes(text: Any) -> bytes:
    return b64decode(typed(text, str), validate=True)
