"""Kafka's requests and responses as objects: every API that the gateway knows, in Kafka 4.3's versions.

The classes and the encoders are kafka-python's, made from Kafka's own schemas; the decoders are made from the
same schemas in schema_decoder.py, because bytes from the network are not trusted. Only here is kafka-python
imported, whose protocol classes are internal to it: its version is pinned.

A field is an attribute, in snake case; a struct is an object of a class that hangs on the message's class:
MetadataResponse.MetadataResponseTopic(name="t", ...). A field that a version lacks is left out when that
version is encoded, and has its default after decoding. Set every list: the defaults of all messages are one
object, so one must never be appended to.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol, cast

from kafka.protocol import admin, consumer, metadata, producer  # type: ignore[import-untyped]  # no types

from barbicel.codecs.kafka.schema_decoder import decode_body, struct_decoder
from barbicel.codecs.kafka.wire import MalformedRequest

__all__ = [
    "VERSIONS",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "MalformedMessage",
    "Message",
    "MessageClass",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "is_flexible",
    "request_class",
    "response_class",
]


class MalformedMessage(MalformedRequest):
    """Bytes that are no message of their API and version. `position` counts from the start of the body."""


class Message(Protocol):
    """A request, a response, or a struct in one of them. Its fields are not known to the type checker."""

    @property
    def version(self) -> int | None: ...
    def __getattr__(self, name: str, /) -> Any: ...


class MessageClass(Protocol):
    """Makes messages from their fields; a name that is no field raises ValueError.

    The classes of a message's structs are attributes of its class, under their names in Kafka's schemas.
    """

    __name__: str

    def __call__(self, **fields: object) -> Message: ...
    def __getattr__(self, name: str, /) -> MessageClass: ...


# API key → the versions that Kafka 4.3 has.
VERSIONS: dict[int, range] = {}
_REQUESTS: dict[int, Any] = {}
_RESPONSES: dict[int, Any] = {}


def _api(request: Any, response: Any, first: int, last: int) -> tuple[MessageClass, MessageClass]:
    VERSIONS[request.API_KEY] = range(first, last + 1)
    _REQUESTS[request.API_KEY] = request
    _RESPONSES[response.API_KEY] = response
    return request, response


# Kafka 4 advertises Produce from 0 and serves it from 3.
ProduceRequest, ProduceResponse = _api(producer.ProduceRequest, producer.ProduceResponse, 0, 13)
FetchRequest, FetchResponse = _api(consumer.FetchRequest, consumer.FetchResponse, 4, 18)
ListOffsetsRequest, ListOffsetsResponse = _api(
    consumer.ListOffsetsRequest, consumer.ListOffsetsResponse, 1, 11
)
MetadataRequest, MetadataResponse = _api(metadata.MetadataRequest, metadata.MetadataResponse, 0, 13)
OffsetCommitRequest, OffsetCommitResponse = _api(
    consumer.OffsetCommitRequest, consumer.OffsetCommitResponse, 2, 10
)
OffsetFetchRequest, OffsetFetchResponse = _api(
    consumer.OffsetFetchRequest, consumer.OffsetFetchResponse, 1, 10
)
FindCoordinatorRequest, FindCoordinatorResponse = _api(
    metadata.FindCoordinatorRequest, metadata.FindCoordinatorResponse, 0, 6
)
JoinGroupRequest, JoinGroupResponse = _api(consumer.JoinGroupRequest, consumer.JoinGroupResponse, 0, 9)
HeartbeatRequest, HeartbeatResponse = _api(consumer.HeartbeatRequest, consumer.HeartbeatResponse, 0, 4)
LeaveGroupRequest, LeaveGroupResponse = _api(consumer.LeaveGroupRequest, consumer.LeaveGroupResponse, 0, 5)
SyncGroupRequest, SyncGroupResponse = _api(consumer.SyncGroupRequest, consumer.SyncGroupResponse, 0, 5)
DescribeGroupsRequest, DescribeGroupsResponse = _api(
    admin.DescribeGroupsRequest, admin.DescribeGroupsResponse, 0, 6
)
ListGroupsRequest, ListGroupsResponse = _api(admin.ListGroupsRequest, admin.ListGroupsResponse, 0, 5)
ApiVersionsRequest, ApiVersionsResponse = _api(
    metadata.ApiVersionsRequest, metadata.ApiVersionsResponse, 0, 4
)
CreateTopicsRequest, CreateTopicsResponse = _api(admin.CreateTopicsRequest, admin.CreateTopicsResponse, 2, 7)
DeleteTopicsRequest, DeleteTopicsResponse = _api(admin.DeleteTopicsRequest, admin.DeleteTopicsResponse, 1, 6)
DeleteRecordsRequest, DeleteRecordsResponse = _api(
    admin.DeleteRecordsRequest, admin.DeleteRecordsResponse, 0, 2
)
# Version 6 is not stable in Kafka 4.3.
InitProducerIdRequest, InitProducerIdResponse = _api(
    producer.InitProducerIdRequest, producer.InitProducerIdResponse, 0, 5
)
OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse = _api(
    consumer.OffsetForLeaderEpochRequest, consumer.OffsetForLeaderEpochResponse, 2, 4
)
DescribeAclsRequest, DescribeAclsResponse = _api(admin.DescribeAclsRequest, admin.DescribeAclsResponse, 1, 3)
CreateAclsRequest, CreateAclsResponse = _api(admin.CreateAclsRequest, admin.CreateAclsResponse, 1, 3)
DeleteAclsRequest, DeleteAclsResponse = _api(admin.DeleteAclsRequest, admin.DeleteAclsResponse, 1, 3)
DescribeConfigsRequest, DescribeConfigsResponse = _api(
    admin.DescribeConfigsRequest, admin.DescribeConfigsResponse, 1, 4
)
AlterConfigsRequest, AlterConfigsResponse = _api(admin.AlterConfigsRequest, admin.AlterConfigsResponse, 0, 2)
DescribeLogDirsRequest, DescribeLogDirsResponse = _api(
    admin.DescribeLogDirsRequest, admin.DescribeLogDirsResponse, 1, 5
)
CreatePartitionsRequest, CreatePartitionsResponse = _api(
    admin.CreatePartitionsRequest, admin.CreatePartitionsResponse, 0, 3
)
DeleteGroupsRequest, DeleteGroupsResponse = _api(admin.DeleteGroupsRequest, admin.DeleteGroupsResponse, 0, 2)
IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse = _api(
    admin.IncrementalAlterConfigsRequest, admin.IncrementalAlterConfigsResponse, 0, 1
)
OffsetDeleteRequest, OffsetDeleteResponse = _api(
    consumer.OffsetDeleteRequest, consumer.OffsetDeleteResponse, 0, 0
)
DescribeClusterRequest, DescribeClusterResponse = _api(
    admin.DescribeClusterRequest, admin.DescribeClusterResponse, 0, 2
)
DescribeProducersRequest, DescribeProducersResponse = _api(
    admin.DescribeProducersRequest, admin.DescribeProducersResponse, 0, 0
)
DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse = _api(
    admin.DescribeTopicPartitionsRequest, admin.DescribeTopicPartitionsResponse, 0, 0
)


def request_class(api_key: int) -> MessageClass:
    """Raises ValueError for an API that is not in VERSIONS."""
    return cast(MessageClass, _class(_REQUESTS, api_key))


def response_class(api_key: int) -> MessageClass:
    """Raises ValueError for an API that is not in VERSIONS."""
    return cast(MessageClass, _class(_RESPONSES, api_key))


def is_flexible(api_key: int, version: int) -> bool:
    """Whether a message has compact lengths and tagged fields; headers.py says what that means for headers.

    Right for versions too that Kafka does not have yet. Raises ValueError for an API that is not in VERSIONS.
    """
    return version >= 0 and bool(_class(_REQUESTS, api_key).flexible_version_q(version))


def decode_request(api_key: int, version: int, body: memoryview) -> Message:
    """What stands behind the request's header; bytes after it are passed over.

    Raises MalformedMessage, and ValueError for an API or version that is not in VERSIONS.
    """
    return _decode(_class(_REQUESTS, api_key), version, body)


def decode_response(api_key: int, version: int, body: memoryview) -> Message:
    """As decode_request."""
    return _decode(_class(_RESPONSES, api_key), version, body)


def encode_request(request: Message, version: int) -> bytes:
    """As encode_response."""
    return _encode(request, version)


def encode_response(response: Message, version: int) -> bytes:
    """The body alone, without a header. Fields that the version lacks are left out."""
    return _encode(response, version)


def _class(kinds: dict[int, Any], api_key: int) -> Any:
    if api_key not in kinds:
        raise ValueError(f"there is no API {api_key}")
    return kinds[api_key]


def _decode(kind: Any, version: int, body: memoryview) -> Message:
    _check_version(kind, version)
    try:
        message = decode_body(_decoder(kind, version), body, flexible=kind.flexible_version_q(version))
    except MalformedRequest as error:
        reason = f"{kind.__name__} version {version}: {error.message}"
        raise MalformedMessage(reason, position=error.position) from error
    # kafka-python's encoders look for it.
    message._header = None
    return cast(Message, message)


@cache
def _decoder(kind: Any, version: int) -> Any:
    return struct_decoder(kind._struct, kind, version, flexible=kind.flexible_version_q(version))


def _encode(message: Message, version: int) -> bytes:
    _check_version(type(message), version)
    # It comes as a bytearray, which Twisted's transports do not take.
    return bytes(message.encode(version=version))


def _check_version(kind: Any, version: int) -> None:
    if version not in VERSIONS[kind.API_KEY]:
        raise ValueError(f"there is no version {version} of {kind.__name__}")
