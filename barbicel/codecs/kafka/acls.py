"""Access rules as values, with the numbers that Kafka's protocol has for them (KIP-11, KIP-290)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "CLUSTER_NAME",
    "IMPLIED_BY",
    "OPERATIONS_OF",
    "Acl",
    "Operation",
    "Pattern",
    "Permission",
    "Resource",
]

# What the one resource of type CLUSTER is called.
CLUSTER_NAME = "kafka-cluster"


class Resource(IntEnum):
    """What a rule is about. ANY is for filters alone."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """How a rule's name is compared. ANY and MATCH are for filters alone."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is done. ANY is for filters alone."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """ANY is for filters alone."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule. `principal` is "User:alice" or "User:*", `host` an address or "*"."""

    resource: Resource
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        prefix = "" if self.pattern is Pattern.LITERAL else f"{self.pattern.name} "
        what = f"{self.operation.name} {self.resource.name} {prefix}{self.name}"
        return f"{self.permission.name} {self.principal} from {self.host} to {what}"


# Whoever is allowed one of these is allowed the first as well. Being denied one of them denies no other.
IMPLIED_BY: Mapping[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}

# What can be done with each kind of resource, as Kafka's AclEntry has it.
OPERATIONS_OF: Mapping[Resource, frozenset[Operation]] = {
    Resource.TOPIC: frozenset(
        {
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    Resource.GROUP: frozenset(
        {
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    Resource.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        }
    ),
    Resource.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT}),
    Resource.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
    Resource.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
}
