"""Kafka's requests and responses as objects: every API that the gateway knows, in Kafka 4.3's versions.

The classes and the encoders are kafka-python's, made from Kafka's own schemas; the decoders are made from the
same schemas in schema_decoder.py, because bytes from the network are not trusted. kafka-python's protocol
classes are internal to it, so its version is pinned; kafka_python.py imports them.

A field is an attribute, in snake case; a struct is an object of a class that hangs on the message's class:
MetadataResponse.MetadataResponseTopic(name="t", ...). A field that a version lacks is left out when that
version is encoded, and has its default after decoding. Set every list: the defaults of all messages are one
object, so one must never be appended to.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Protocol, cast

from barbicel.codecs.kafka.kafka_python import LazyClass
from barbicel.codecs.kafka.schema_decoder import decode_body, struct_decoder
from barbicel.codecs.kafka.wire import NO_ROW_LIMIT, MalformedRequest

__all__ = [
    "VERSIONS",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
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
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
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
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
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
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "is_flexible",
    "load_all",
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


NO_VERSIONS = (0, -1)
# API key → the versions that Kafka 4.3 has.
VERSIONS: dict[int, range] = {}
_REQUESTS: dict[int, LazyClass] = {}
_RESPONSES: dict[int, LazyClass] = {}


def _api(api_key: int, module: str, name: str, first: int, last: int) -> tuple[MessageClass, MessageClass]:
    request, response = LazyClass(module, f"{name}Request"), LazyClass(module, f"{name}Response")
    VERSIONS[api_key] = range(first, last + 1)
    _REQUESTS[api_key] = request
    _RESPONSES[api_key] = response
    return request, response


# Kafka 4 advertises Produce from 0 and serves it from 3.
ProduceRequest, ProduceResponse = _api(0, "producer", "Produce", 0, 13)
FetchRequest, FetchResponse = _api(1, "consumer", "Fetch", 4, 18)
ListOffsetsRequest, ListOffsetsResponse = _api(2, "consumer", "ListOffsets", 1, 11)
MetadataRequest, MetadataResponse = _api(3, "metadata", "Metadata", 0, 13)
OffsetCommitRequest, OffsetCommitResponse = _api(8, "consumer", "OffsetCommit", 2, 10)
OffsetFetchRequest, OffsetFetchResponse = _api(9, "consumer", "OffsetFetch", 1, 10)
FindCoordinatorRequest, FindCoordinatorResponse = _api(10, "metadata", "FindCoordinator", 0, 6)
JoinGroupRequest, JoinGroupResponse = _api(11, "consumer", "JoinGroup", 0, 9)
HeartbeatRequest, HeartbeatResponse = _api(12, "consumer", "Heartbeat", 0, 4)
LeaveGroupRequest, LeaveGroupResponse = _api(13, "consumer", "LeaveGroup", 0, 5)
SyncGroupRequest, SyncGroupResponse = _api(14, "consumer", "SyncGroup", 0, 5)
DescribeGroupsRequest, DescribeGroupsResponse = _api(15, "admin", "DescribeGroups", 0, 6)
ListGroupsRequest, ListGroupsResponse = _api(16, "admin", "ListGroups", 0, 5)
ApiVersionsRequest, ApiVersionsResponse = _api(18, "metadata", "ApiVersions", 0, 4)
SaslHandshakeRequest, SaslHandshakeResponse = _api(17, "sasl", "SaslHandshake", 0, 1)
CreateTopicsRequest, CreateTopicsResponse = _api(19, "admin", "CreateTopics", 2, 7)
DeleteTopicsRequest, DeleteTopicsResponse = _api(20, "admin", "DeleteTopics", 1, 6)
DeleteRecordsRequest, DeleteRecordsResponse = _api(21, "admin", "DeleteRecords", 0, 2)
# Version 6 is not stable in Kafka 4.3.
InitProducerIdRequest, InitProducerIdResponse = _api(22, "producer", "InitProducerId", 0, 5)
OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse = _api(23, "consumer", "OffsetForLeaderEpoch", 2, 4)
DescribeAclsRequest, DescribeAclsResponse = _api(29, "admin", "DescribeAcls", 1, 3)
CreateAclsRequest, CreateAclsResponse = _api(30, "admin", "CreateAcls", 1, 3)
DeleteAclsRequest, DeleteAclsResponse = _api(31, "admin", "DeleteAcls", 1, 3)
DescribeConfigsRequest, DescribeConfigsResponse = _api(32, "admin", "DescribeConfigs", 1, 4)
AlterConfigsRequest, AlterConfigsResponse = _api(33, "admin", "AlterConfigs", 0, 2)
DescribeLogDirsRequest, DescribeLogDirsResponse = _api(35, "admin", "DescribeLogDirs", 1, 5)
SaslAuthenticateRequest, SaslAuthenticateResponse = _api(36, "sasl", "SaslAuthenticate", 0, 2)
CreatePartitionsRequest, CreatePartitionsResponse = _api(37, "admin", "CreatePartitions", 0, 3)
DeleteGroupsRequest, DeleteGroupsResponse = _api(42, "admin", "DeleteGroups", 0, 2)
IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse = _api(
    44, "admin", "IncrementalAlterConfigs", 0, 1
)
OffsetDeleteRequest, OffsetDeleteResponse = _api(47, "consumer", "OffsetDelete", 0, 0)
DescribeClientQuotasRequest, DescribeClientQuotasResponse = _api(48, "admin", "DescribeClientQuotas", 0, 1)
AlterClientQuotasRequest, AlterClientQuotasResponse = _api(49, "admin", "AlterClientQuotas", 0, 1)
DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse = _api(
    50, "admin", "DescribeUserScramCredentials", 0, 0
)
AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse = _api(
    51, "admin", "AlterUserScramCredentials", 0, 0
)
DescribeClusterRequest, DescribeClusterResponse = _api(60, "admin", "DescribeCluster", 0, 2)
DescribeProducersRequest, DescribeProducersResponse = _api(61, "admin", "DescribeProducers", 0, 0)
DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse = _api(
    75, "admin", "DescribeTopicPartitions", 0, 0
)


def request_class(api_key: int) -> MessageClass:
    """Raises ValueError for an API that is not in VERSIONS."""
    return cast(MessageClass, _class(_REQUESTS, api_key))


def response_class(api_key: int) -> MessageClass:
    """Raises ValueError for an API that is not in VERSIONS."""
    return cast(MessageClass, _class(_RESPONSES, api_key))


# Asked for every request, of which only the API's key is bounded.
@lru_cache(maxsize=1024)
def is_flexible(api_key: int, version: int) -> bool:
    """Whether a message has compact lengths and tagged fields; headers.py says what that means for headers.

    Right for versions too that Kafka does not have yet. Raises ValueError for an API that is not in VERSIONS.
    """
    first, last = _flexible_versions(api_key)
    return max(0, first) <= version <= last


@cache
def _flexible_versions(api_key: int) -> tuple[int, int]:
    """The first and the last."""
    return _class(_REQUESTS, api_key)._flexible_versions or NO_VERSIONS


def decode_request(api_key: int, version: int, body: memoryview, *, max_rows: int = NO_ROW_LIMIT) -> Message:
    """What stands behind the request's header; bytes after it are passed over.

    Raises MalformedMessage, also if all arrays together have more than max_rows elements, and ValueError
    for an API or version that is not in VERSIONS.
    """
    return _decode(_class(_REQUESTS, api_key), version, body, max_rows)


def decode_response(api_key: int, version: int, body: memoryview) -> Message:
    """As decode_request."""
    return _decode(_class(_RESPONSES, api_key), version, body)


def encode_request(request: Message, version: int) -> bytes:
    """As encode_response."""
    return _encode(request, version)


def encode_response(response: Message, version: int) -> bytes:
    """The body alone, without a header. Fields that the version lacks are left out."""
    return _encode(response, version)


def load_all() -> None:
    """Make every class now, in any thread, so that no request has to wait for its own."""
    for kind in (*_REQUESTS.values(), *_RESPONSES.values()):
        kind.made  # noqa: B018  # looked at to be made


def _class(kinds: dict[int, LazyClass], api_key: int) -> Any:
    if api_key not in kinds:
        raise ValueError(f"there is no API {api_key}")
    return kinds[api_key].made


def _decode(kind: Any, version: int, body: memoryview, max_rows: int = NO_ROW_LIMIT) -> Message:
    _check_version(kind, version)
    try:
        flexible = kind.flexible_version_q(version)
        message = decode_body(_decoder(kind, version), body, flexible=flexible, max_rows=max_rows)
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
