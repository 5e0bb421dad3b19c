"""DescribeAcls (key 29), versions 1 to 3: SECURITY_DISABLED, as Kafka answers without an authorizer.

Tools such as Redpanda Console and AKHQ ask for it and take that answer for "no access control here".
"""

from __future__ import annotations

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeAclsResponse, Message
from barbicel.gateway.kafka.api import Api, Call

__all__ = ["API", "NO_ACCESS_CONTROL"]

NO_ACCESS_CONTROL = "there is no access control on this server"


def respond(call: Call, request: Message) -> Message:
    return DescribeAclsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message=NO_ACCESS_CONTROL,
        resources=[],
    )


API = Api(29, "DescribeAcls", 1, 3, respond)
