"""DescribeCluster (key 60), versions 0 to 2.

- Version 1 asks for brokers (1) or controllers (2). This is a broker's endpoint, so a request for the others
  is MISMATCHED_ENDPOINT_TYPE, as with Kafka; any other number is UNSUPPORTED_ENDPOINT_TYPE.
- Version 2 asks for fenced brokers too, of which there are none.
- What the client may do is told to those who may describe the cluster.
"""

from __future__ import annotations

from enum import IntEnum

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeClusterResponse, Message
from barbicel.gateway.kafka.advertised import advertised_address
from barbicel.gateway.kafka.api import Api, Call
from barbicel.gateway.kafka.permission import may, operations

__all__ = ["API"]

BrokerRow = DescribeClusterResponse.DescribeClusterBroker
NO_CONTROLLER = -1


class EndpointType(IntEnum):
    BROKERS = 1
    CONTROLLERS = 2


def respond(call: Call, request: Message) -> Message:
    if request.endpoint_type == EndpointType.CONTROLLERS:
        return _problem(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's endpoint, not a controller's")
    if request.endpoint_type != EndpointType.BROKERS:
        return _problem(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {request.endpoint_type}"
        )
    host, port = advertised_address(call)
    node_id = call.broker.node_id
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=EndpointType.BROKERS,
        cluster_id=call.broker.cluster_id,
        controller_id=node_id,
        brokers=[BrokerRow(broker_id=node_id, host=host, port=port, rack=None, is_fenced=False)],
        authorized_operations=_operations(call, request),
    )


def _operations(call: Call, request: Message) -> frozenset[int] | None:
    if not request.include_cluster_authorized_operations:
        return None
    may_know = may(call, Operation.DESCRIBE, Resource.CLUSTER, is_quiet=True)
    return operations(call, Resource.CLUSTER) if may_know else frozenset()


def _problem(error_code: ErrorCode, message: str) -> Message:
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=error_code,
        error_message=message,
        endpoint_type=EndpointType.BROKERS,
        cluster_id="",
        controller_id=NO_CONTROLLER,
        brokers=[],
        authorized_operations=None,
    )


API = Api(60, "DescribeCluster", 0, 2, respond)
