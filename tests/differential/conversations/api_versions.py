"""ApiVersions: what is offered, to whom, and what an unknown version gets."""

from __future__ import annotations

from barbicel.codecs.kafka.messages import ApiVersionsRequest
from tests.differential.asking import versions
from tests.differential.script import Ask, SendBytes, Steps, conversations_of
from tests.differential.talk import frame, header

__all__ = ["CONVERSATIONS"]

KEY = 18


def api_versions() -> Steps:
    request = ApiVersionsRequest(client_software_name="differential", client_software_version="1.0")
    for version in versions(ApiVersionsRequest):
        yield Ask(f"version {version}", request, version)


def api_versions_of_an_unknown_version() -> Steps:
    for version in (5, 127, 32767):
        # The answer is in version 0, whatever the request was.
        yield SendBytes(f"version {version}", frame(header(KEY, version) + b"\x02a\x02b\x00"), (KEY, 0))


def api_versions_of_strange_clients() -> Steps:
    for name, version in (
        ("", "1"),
        ("a", ""),
        ("-a", "1"),
        ("a b", "1"),
        ("a", "1_0"),
        ("ä", "1"),
        ("a.b-c", "1.0-SNAPSHOT"),
    ):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        yield Ask(f"{name!r} {version!r}", request, 3)


CONVERSATIONS = conversations_of(
    api_versions, api_versions_of_an_unknown_version, api_versions_of_strange_clients
)
