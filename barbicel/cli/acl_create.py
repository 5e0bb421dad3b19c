"""`barbicel acl create`: allow or deny a principal something."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

import click

from barbicel.cli.acl_options import (
    OPERATIONS,
    OperationName,
    acl_rows,
    resource_of,
    resource_options,
    tell_acls,
)
from barbicel.cli.connecting import connected_server, server_options
from barbicel.cli.options import json_option
from barbicel.cli.page import render_json
from barbicel.codecs.kafka.acls import Acl, Pattern, Permission, Resource
from barbicel.gateway.access.acl_filter import WILDCARD, check_acl
from barbicel.gateway.broker.topic_errors import InvalidTopic
from barbicel.gateway.broker.topic_names import check_topic_name

__all__ = ["create_acl"]


@click.command("create")
@server_options
@click.option("--principal", metavar="User:NAME", required=True, help="Who; User:* is everybody.")
@click.option("--host", default="*", metavar="ADDRESS", help="From where; * is everywhere.")
@click.option(
    "--operation",
    "operations",
    type=OperationName(list(OPERATIONS), case_sensitive=False),
    multiple=True,
    required=True,
    metavar="OPERATION",
    help=f"What, one of {', '.join(OPERATIONS)}; may be given several times.",
)
@click.option("--deny", is_flag=True, help="Deny it; without this it is allowed.")
@resource_options
@json_option
def create_acl(
    bootstrap: str | None,
    path: str | None,
    principal: str,
    host: str,
    operations: Sequence[str],
    deny: bool,
    topic: str | None,
    group: str | None,
    cluster: bool,
    prefixed: bool,
    as_json: bool,
) -> None:
    """Create ACLs on a running server. They hold at once.

    \b
    Example:
      barbicel acl create --client-config admin.properties \\
        --principal User:alice --operation read --topic orders

    \b
    Exit codes:
      0  created
      2  wrong usage, a refusal, or the server does not answer
    """
    resource, name = resource_of(topic, group, cluster)
    if name is None:
        raise click.UsageError("give --topic, --group or --cluster")
    pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
    permission = Permission.DENY if deny else Permission.ALLOW
    acls = [
        _check_sense(check_acl(Acl(resource, name, pattern, principal, host, OPERATIONS[text], permission)))
        for text in dict.fromkeys(operations)
    ]
    with connected_server(bootstrap, path) as server:
        server.create_acls(acls)
    if as_json:
        render_json({"created": acl_rows(acls)})
    else:
        tell_acls("Created", acls)


def _check_sense(acl: Acl) -> Acl:
    """The same, if it may ever hold. Kafka's servers take any text, and so does ours: this is for people, who
    would think that it holds. Raises UsageError."""
    if acl.host != WILDCARD and not _is_address(acl.host):
        raise click.UsageError(f"--host {acl.host!r} is no address of a client, as 192.0.2.1 or ::1, nor *")
    is_literal = acl.pattern is Pattern.LITERAL
    if acl.resource is Resource.TOPIC and not (is_literal and acl.name == WILDCARD):
        # Names may begin with a dot, though they cannot be one.
        name = acl.name if is_literal else acl.name.lstrip(".") or "any"
        try:
            check_topic_name(name)
        except InvalidTopic as error:
            raise click.UsageError(f"--topic {acl.name!r}: {error.message}") from None
    return acl


def _is_address(host: str) -> bool:
    """In the form in which clients have it: rules are compared as text."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # One form of IPv6 has a part in IPv4's, which this module writes otherwise.
    return str(address) == host or (address.version == 6 and "." in host)
