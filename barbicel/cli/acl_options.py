"""What the acl commands take: a resource, a principal, a host, an operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import click

from barbicel.cli.page import Page, number_table
from barbicel.codecs.kafka.acls import CLUSTER_NAME, Acl, Operation, Pattern, Resource
from barbicel.gateway.access.acl_filter import AclFilter

__all__ = [
    "OPERATIONS",
    "OperationName",
    "acl_rows",
    "filter_options",
    "resource_of",
    "resource_options",
    "tell_acls",
]

# As Kafka's tools write them, in any case: DescribeConfigs.
OPERATIONS: Mapping[str, Operation] = {
    one.name.replace("_", "").lower(): one for one in Operation if one is not Operation.ANY
}


class OperationName(click.Choice[str]):
    """As Kafka's documents and our own messages write them, too: DESCRIBE_CONFIGS."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(value.replace("_", ""), param, ctx)


_RESOURCES = (
    click.option("--topic", metavar="NAME", help="About this topic; * is all of them."),
    click.option("--group", metavar="NAME", help="About this consumer group; * is all of them."),
    click.option("--cluster", is_flag=True, help="About the cluster."),
    click.option("--prefixed", is_flag=True, help="The name is the beginning of names."),
)


def resource_options(command: Callable[..., None]) -> Callable[..., None]:
    """`topic`, `group`, `cluster` and `prefixed`."""
    for option in reversed(_RESOURCES):
        command = option(command)
    return command


def resource_of(topic: str | None, group: str | None, cluster: bool) -> tuple[Resource, str | None]:
    """One of them, or any."""
    given = [
        pair
        for pair in (
            (Resource.TOPIC, topic),
            (Resource.GROUP, group),
            (Resource.CLUSTER, CLUSTER_NAME if cluster else None),
        )
        if pair[1] is not None
    ]
    if len(given) > 1:
        raise click.UsageError("give --topic, --group or --cluster, one of them")
    return given[0] if given else (Resource.ANY, None)


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """What finds ACLs; the command is given `wanted` in their place."""

    @click.option("--principal", metavar="User:NAME", help="Only those of this principal.")
    @resource_options
    @click.pass_context
    def filtering(
        ctx: click.Context,
        /,
        principal: str | None,
        topic: str | None,
        group: str | None,
        cluster: bool,
        prefixed: bool,
        **rest: object,
    ) -> None:
        resource, name = resource_of(topic, group, cluster)
        pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL if name is not None else Pattern.ANY
        ctx.invoke(command, wanted=AclFilter(resource, name, pattern, principal), **rest)

    filtering.__doc__ = command.__doc__
    return filtering


def acl_rows(acls: Iterable[Acl]) -> list[dict[str, str]]:
    return [
        {
            "resource": acl.resource.name,
            "name": acl.name,
            "pattern": acl.pattern.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation.name,
            "permission": acl.permission.name,
        }
        for acl in acls
    ]


def tell_acls(title: str, acls: Sequence[Acl]) -> None:
    rows = acl_rows(acls)
    columns = tuple(rows[0])
    Page().table(title, number_table(columns, [tuple(row.values()) for row in rows], columns))
