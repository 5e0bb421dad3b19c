"""The dispatch table: every API that is served, in which versions. ApiVersions answers from it.

What is not here is not advertised. A client that asks for it all the same loses its connection, as with
Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from barbicel.errors import BarbicelError
from barbicel.gateway.kafka import (
    api_versions,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from barbicel.gateway.kafka.api import Api

__all__ = ["TABLE", "UnsupportedRequest", "api_for", "frame_limit"]

TABLE: Mapping[int, Api] = {
    module.API.key: module.API
    for module in (
        produce,
        fetch,
        list_offsets,
        metadata,
        api_versions,
        init_producer_id,
        offset_for_leader_epoch,
    )
}
api_versions.served.update(TABLE)

# A request without records becomes values of up to fifty times its size.
MAX_OTHER_FRAME_BYTES = 8 << 20


class UnsupportedRequest(BarbicelError):
    """An API key or version that is not in the table."""


def api_for(api_key: int, version: int) -> tuple[Api, int]:
    """The row and the version to answer in.

    ApiVersions is how a client finds out, so that one is answered in version 0 whatever was asked for.
    """
    api = TABLE.get(api_key)
    if api is None:
        raise UnsupportedRequest(f"API key {api_key} is not served")
    if not api.first_version <= version <= api.last_version:
        if api is api_versions.API:
            return api, 0
        raise UnsupportedRequest(
            f"{api.name} version {version} is not served, only {api.first_version} to {api.last_version}"
        )
    return api, version


def frame_limit(api_key: int) -> int:
    """How long a request may be; what has no records has a limit of its own."""
    return (1 << 31) - 1 if api_key == produce.API.key else MAX_OTHER_FRAME_BYTES
