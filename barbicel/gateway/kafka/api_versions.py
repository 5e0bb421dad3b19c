"""ApiVersions (key 18), versions 0 to 4.

- The response header is always version 0: the client does not know yet what is spoken (KIP-511).
- A version that is not known is answered with UNSUPPORTED_VERSION in version 0 and the versions of this API
  alone, so that the client can try again.
- Version 3 and later carry features. transaction.version is not among them: there are no transactions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import ApiVersionsResponse, Message
from barbicel.gateway.kafka.api import Api, Call

__all__ = ["API", "served"]

# Filled by the table, which this answers from.
served: dict[int, Api] = {}

# What a client may call itself; Kafka refuses others (KIP-511).
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")
SOFTWARE_SINCE = 3


def respond(call: Call, request: Message | None) -> Message:
    if request is None:  # a version that is not known
        return _answer(ErrorCode.UNSUPPORTED_VERSION)
    if call.version >= SOFTWARE_SINCE and not (
        SOFTWARE.fullmatch(request.client_software_name)
        and SOFTWARE.fullmatch(request.client_software_version)
    ):
        return _answer(ErrorCode.INVALID_REQUEST)
    return _answer(ErrorCode.NONE)


def _answer(error_code: ErrorCode) -> Message:
    row = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=[
            row(api_key=api.key, min_version=api.first_version, max_version=api.last_version)
            for api in sorted(_shown(error_code), key=lambda api: api.key)
        ],
        throttle_time_ms=0,
        supported_features=[],
        finalized_features=[],
    )


def _shown(error_code: ErrorCode) -> Iterable[Api]:
    if error_code is ErrorCode.UNSUPPORTED_VERSION:
        return (API,)
    return served.values() if error_code is ErrorCode.NONE else ()


API = Api(18, "ApiVersions", 0, 4, respond)
