"""FindCoordinator (key 10), versions 0 to 6.

- Every group's coordinator is this node, at the address that Metadata tells: clients join the two by node id.
- Version 1 brought key types, 4 many keys in a request, each with an answer of its own; one that is named
  twice has one.
- A group needs DESCRIBE.
- There are no transactions yet. COORDINATOR_NOT_AVAILABLE would make producers ask until they time out and
  not know why; the error that InitProducerId would give them is final, so they get it here.
- The coordinator of share groups (type 2, from version 6) is one that only brokers look for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import FindCoordinatorResponse, Message
from barbicel.gateway.kafka.advertised import advertised_address
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import group_access_refusal
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

CoordinatorRow = FindCoordinatorResponse.Coordinator
MANY_KEYS_SINCE = 4
GROUP, TRANSACTION = 0, 1
NOBODY = -1


class Refusal(NamedTuple):
    error_code: ErrorCode
    message: str | None


SERVED = Refusal(ErrorCode.NONE, None)
UNKNOWN_TYPE = Refusal(ErrorCode.INVALID_REQUEST, "There is no coordinator of this type.")
REFUSALS: Mapping[int, Refusal] = {
    GROUP: SERVED,
    TRANSACTION: Refusal(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not served by this broker."
    ),
}


def respond(call: Call, request: Message) -> Reply:
    if call.version < MANY_KEYS_SINCE:
        return FindCoordinatorResponse(throttle_time_ms=0, **_found(call, request.key_type, request.key))
    return gather(
        call,
        (
            CoordinatorRow(key=key, **_found(call, request.key_type, key))
            for key in dict.fromkeys(request.coordinator_keys)
        ),
        lambda rows: FindCoordinatorResponse(throttle_time_ms=0, coordinators=rows),
    )


def _found(call: Call, key_type: int, key: str) -> dict[str, Any]:
    """What is the same in both forms of the answer."""
    error_code, message = REFUSALS.get(key_type, UNKNOWN_TYPE)
    if key_type == GROUP and (refusal := group_access_refusal(call, Operation.DESCRIBE, key)):
        error_code, message = refusal, None
    node_id, host, port = NOBODY, "", NOBODY
    if error_code is ErrorCode.NONE:
        node_id, (host, port) = call.broker.node_id, advertised_address(call)
    return {
        "node_id": node_id,
        "host": host,
        "port": port,
        "error_code": error_code,
        "error_message": message,
    }


API = Api(10, "FindCoordinator", 0, 6, respond, is_alone=True)
