"""Checks of access control: what a start reads of it and would refuse, and what its settings leave open.

The server's own readers, so that there is nothing that one takes and the other does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from barbicel.cli.checks.finding import Finding, Level, Subject
from barbicel.config.security_settings import ways_past_acls
from barbicel.errors import BarbicelError
from barbicel.gateway.access.access_layout import AccessLayout, needs_access
from barbicel.gateway.access.acl_file import AclFile
from barbicel.gateway.access.principals import parse_mapping_rules, parse_super_users
from barbicel.gateway.access.quota_file import QuotaFile
from barbicel.gateway.access.token_key_file import read_token_keys, token_key_path
from barbicel.gateway.access.users import UserFile
from barbicel.gateway.admin.token import read_token, token_path

__all__ = ["check_access", "check_token"]

ADVICE = "correct it; see docs/security.md"


def check_access(subject: Subject) -> Iterator[Finding]:
    if not needs_access(subject.disk, subject.layout.root, subject.config):
        yield Finding(Level.OK, "everybody may do everything")
        return
    refused = list(_refused(subject))
    for error in refused:
        yield Finding(Level.FAULT, str(error), error.hint or ADVICE)
    for way in ways_past_acls(subject.config):
        yield Finding(Level.WARNING, way.what, way.advice)
    if not refused:
        yield Finding(Level.OK, "all that it needs can be read")


def _refused(subject: Subject) -> Iterator[BarbicelError]:
    for read in _readers(subject):
        try:
            read()
        except BarbicelError as error:
            yield error


def _readers(subject: Subject) -> Iterator[Callable[[], object]]:
    """What the start of the server does, each by itself."""
    disk, config, layout = subject.disk, subject.config, AccessLayout(subject.layout.root)
    for file in (UserFile, AclFile, QuotaFile):
        yield partial(file, disk, layout)
    yield partial(parse_mapping_rules, config.ssl_principal_mapping_rules)
    if config.has_authorizer:
        yield partial(parse_super_users, config.super_users)
    if config.ssl_keystore_location:
        from barbicel.gateway.access.tls import load_context

        yield partial(load_context, disk, config)
    if "OAUTHBEARER" in config.sasl_enabled_mechanisms:
        yield partial(read_token_keys, disk, token_key_path(config))


def check_token(subject: Subject) -> Iterator[Finding]:
    """The token of the admin listener. If there is none, a start makes it."""
    if not subject.config.admin_enable:
        return
    path = token_path(subject.config, subject.layout.root)
    if subject.disk.exists(path):
        read_token(subject.disk, path)
        yield Finding(Level.OK, "there is one")
    else:
        yield Finding(Level.OK, "the first start makes it")
