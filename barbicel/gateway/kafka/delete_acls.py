"""DeleteAcls (key 31), versions 1 to 3: SECURITY_DISABLED for each, as in Kafka without an authorizer."""

from __future__ import annotations

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DeleteAclsResponse, Message
from barbicel.gateway.kafka.api import Api, Call
from barbicel.gateway.kafka.describe_acls import NO_ACCESS_CONTROL

__all__ = ["API"]


def respond(call: Call, request: Message) -> Message:
    row = DeleteAclsResponse.DeleteAclsFilterResult
    refused = row(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_ACCESS_CONTROL, matching_acls=[])
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=[refused for _ in request.filters])


API = Api(31, "DeleteAcls", 1, 3, respond)
