"""The dispatch table: every API that is served, in which versions. ApiVersions answers from it.

What is not here is not advertised. A client that asks for it all the same loses its connection, as with
Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from barbicel.errors import BarbicelError
from barbicel.gateway.kafka import (
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_user_scram_credentials,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
)
from barbicel.gateway.kafka.api import Api

__all__ = ["ANY_REQUEST_BYTES", "TABLE", "UnsupportedRequest", "api_for", "frame_limit"]

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
        find_coordinator,
        join_group,
        sync_group,
        heartbeat,
        leave_group,
        offset_commit,
        offset_fetch,
        offset_delete,
        list_groups,
        describe_groups,
        delete_groups,
        create_topics,
        delete_topics,
        delete_records,
        create_partitions,
        describe_topic_partitions,
        describe_configs,
        alter_configs,
        incremental_alter_configs,
        describe_cluster,
        describe_log_dirs,
        describe_producers,
        describe_acls,
        create_acls,
        delete_acls,
        sasl_handshake,
        sasl_authenticate,
        describe_user_scram_credentials,
        alter_user_scram_credentials,
        describe_client_quotas,
        alter_client_quotas,
    )
}
api_versions.served.update(TABLE)

# A request without records becomes values of up to fifty times its size.
MAX_OTHER_FRAME_BYTES = 2 << 20
# What is long because of bytes that are not looked into.
FRAME_LIMITS: Mapping[int, int] = {
    produce.API.key: (1 << 31) - 1,
    offset_commit.API.key: 8 << 20,
    join_group.API.key: 8 << 20,
    sync_group.API.key: 8 << 20,
}
# So long any of them may be.
ANY_REQUEST_BYTES = min(MAX_OTHER_FRAME_BYTES, *FRAME_LIMITS.values())


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
    """How long a request may be."""
    return FRAME_LIMITS.get(api_key, MAX_OTHER_FRAME_BYTES)
