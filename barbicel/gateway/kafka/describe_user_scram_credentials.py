"""DescribeUserScramCredentials (key 50), version 0: who has a password, and for which mechanisms (KIP-554).

Null, or no users, means all. A user that is named twice is DUPLICATE_RESOURCE, one that has none
RESOURCE_NOT_FOUND. Keys and salts are told to nobody. Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeUserScramCredentialsResponse, Message
from barbicel.gateway.access.opening import opened_access
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

UserRow = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
CredentialRow = UserRow.CredentialInfo


def respond(call: Call, request: Message) -> Reply:
    if refusal := cluster_refusal(call, Operation.DESCRIBE):
        return DescribeUserScramCredentialsResponse(
            throttle_time_ms=0, error_code=refusal, error_message=None, results=[]
        )
    found = _iterations(call)
    asked = (
        Counter(user.name for user in request.users) if request.users else Counter(dict.fromkeys(found, 1))
    )
    return gather(call, (_row(name, times, found.get(name, ())) for name, times in asked.items()), _response)


def _response(rows: list[Message]) -> Message:
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, results=rows
    )


def _iterations(call: Call) -> dict[str, list[tuple[str, int]]]:
    """Of each user's passwords, by mechanism."""
    found: dict[str, list[tuple[str, int]]] = {}
    for (user, mechanism), known in opened_access(call.broker).users.credentials.items():
        found.setdefault(user, []).append((mechanism, known.iterations))
    return found


def _row(name: str, times: int, credentials: Sequence[tuple[str, int]]) -> Message:
    from barbicel.gateway.access.scram import MECHANISMS

    error, message = ErrorCode.NONE, None
    if times > 1:
        error, message = ErrorCode.DUPLICATE_RESOURCE, f"Cannot describe SCRAM credentials for {name} twice."
    elif not credentials:
        error = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    infos = [
        CredentialRow(mechanism=MECHANISMS[mechanism].number, iterations=iterations)
        for mechanism, iterations in ([] if error else credentials)
    ]
    return UserRow(user=name, error_code=error, error_message=message, credential_infos=infos)


API = Api(50, "DescribeUserScramCredentials", 0, 0, respond, is_alone=True)
