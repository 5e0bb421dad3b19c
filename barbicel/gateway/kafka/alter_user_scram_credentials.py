"""AlterUserScramCredentials (key 51), version 0: gives users a password, and takes it away (KIP-554).

- The password itself does not come: what comes was made of it with salt and iterations, and only keys that
  are made of that are kept. They are durable before the answer.
- Everything that a request wants of one user is done, or nothing of it. Another user's errors do not matter.
- Needs ALTER on the cluster.
- Fewer than 4,096 and more than 16,384 iterations are UNACCEPTABLE_CREDENTIAL.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from barbicel.codecs.access_file import ScramCredential
from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import AlterUserScramCredentialsResponse, Message
from barbicel.gateway.access.opening import opened_access
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.refusals import error_code_of, message_of, note_refusals
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

_log = logging.getLogger(__name__)

UserRow = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
MAX_NAME_CHARS = 255


class Refusal(NamedTuple):
    error_code: ErrorCode
    message: str


class Alteration(NamedTuple):
    """`credential` None deletes."""

    user: str
    mechanism: str
    credential: ScramCredential | None


def respond(call: Call, request: Message) -> Reply:
    asked = (*request.deletions, *request.upsertions)
    times = Counter((row.name, row.mechanism) for row in asked)
    names = dict.fromkeys(name for name, _ in times)
    # First: keys are made of every row, and who may not have them made must not keep the server busy.
    if cluster_refusal(call, Operation.ALTER):
        refusal = Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        return _answer(call, names, dict.fromkeys(names, refusal), None)
    known = opened_access(call.broker).users.credentials
    found = (_alteration(known, row, times) for row in asked)
    return gather(call, found, partial(_alter, call, asked, names))


def _alter(
    call: Call, asked: Sequence[Any], names: dict[str, None], found: list[Alteration | Refusal]
) -> Reply:
    users = opened_access(call.broker).users
    refused: dict[str, Refusal] = {}
    for row, one in zip(asked, found, strict=True):
        if isinstance(one, Refusal):
            refused.setdefault(row.name, one)
    allowed = [one for one in found if isinstance(one, Alteration) and one.user not in refused]
    upserts = {(one.user, one.mechanism): one.credential for one in allowed if one.credential is not None}
    deletions = [(one.user, one.mechanism) for one in allowed if one.credential is None]
    if not allowed:
        return _answer(call, names, refused, None)
    return call.broker.change(partial(users.change, upserts, deletions)).addCallbacks(
        partial(_answer, call, names, refused),
        lambda failure: _failed(call, names, refused, failure.value),
    )


def _alteration(known: Any, row: Any, times: Counter[tuple[str, int]]) -> Alteration | Refusal:
    from barbicel.gateway.access.scram import MECHANISMS

    if not row.name or len(row.name) > MAX_NAME_CHARS or not row.name.isprintable():
        return Refusal(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty, nor long, nor unprintable"
        )
    mechanism = next((one for one in MECHANISMS.values() if one.number == row.mechanism), None)
    if mechanism is None:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if times[row.name, row.mechanism] > 1:
        text = "A user credential cannot be altered twice in the same request"
        return Refusal(ErrorCode.DUPLICATE_RESOURCE, text)
    if hasattr(row, "salted_password"):
        return _upsertion(mechanism, row)
    if (row.name, mechanism.name) not in known:
        text = "Attempt to delete a user credential that does not exist"
        return Refusal(ErrorCode.RESOURCE_NOT_FOUND, text)
    return Alteration(row.name, mechanism.name, None)


def _upsertion(mechanism: Any, row: Any) -> Alteration | Refusal:
    from barbicel.gateway.access.scram import (
        MAX_ITERATIONS,
        MAX_SALT_BYTES,
        MIN_ITERATIONS,
        MIN_SALT_BYTES,
        credential_of_salted_password,
    )

    problem = None
    if row.iterations < MIN_ITERATIONS:
        problem = "Too few iterations"
    elif row.iterations > MAX_ITERATIONS:
        problem = "Too many iterations"
    elif not MIN_SALT_BYTES <= len(row.salt) <= MAX_SALT_BYTES:
        problem = f"The salt must have {MIN_SALT_BYTES} to {MAX_SALT_BYTES} bytes"
    elif len(row.salted_password) != mechanism.key_bytes:
        problem = f"The salted password must have {mechanism.key_bytes} bytes"
    if problem is not None:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    credential = credential_of_salted_password(
        mechanism, bytes(row.salted_password), bytes(row.salt), row.iterations
    )
    return Alteration(row.name, mechanism.name, credential)


def _failed(
    call: Call, names: dict[str, None], refused: dict[str, Refusal], error: BaseException | None
) -> Reply:
    failed = Refusal(error_code_of(error), message_of(error))
    return _answer(call, names, {**dict.fromkeys(names, failed), **refused}, None)


def _answer(call: Call, names: dict[str, None], refused: dict[str, Refusal], _: None) -> Reply:
    done = [name for name in names if name not in refused]
    if done:
        _log.info("the passwords of %s, set or deleted by %s", ", ".join(done)[:500], call.who)
    return gather(call, (_row(name, refused.get(name)) for name in names), partial(_response, call))


def _response(call: Call, rows: list[Any]) -> Message:
    note_refusals(call, "AlterUserScramCredentials", rows)
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=rows)


def _row(name: str, refusal: Refusal | None) -> Any:
    error, message = (ErrorCode.NONE, None) if refusal is None else refusal
    return UserRow(user=name, error_code=error, error_message=message)


API = Api(51, "AlterUserScramCredentials", 0, 0, respond, is_alone=True)
