"""CreateAcls (key 30), versions 1 to 3: SECURITY_DISABLED for each, as Kafka answers without an authorizer.

Taking a rule that nobody enforces would let its author believe in it.
"""

from __future__ import annotations

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import CreateAclsResponse, Message
from barbicel.gateway.kafka.api import Api, Call
from barbicel.gateway.kafka.describe_acls import NO_ACCESS_CONTROL

__all__ = ["API"]


def respond(call: Call, request: Message) -> Message:
    row = CreateAclsResponse.AclCreationResult
    refused = row(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_ACCESS_CONTROL)
    return CreateAclsResponse(throttle_time_ms=0, results=[refused for _ in request.creations])


API = Api(30, "CreateAcls", 1, 3, respond)
