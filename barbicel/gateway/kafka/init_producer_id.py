"""InitProducerId (key 22), versions 0 to 5.

- Idempotence is the default of Java and Spark: without this API they cannot write.
- Version 3 lets a producer name the id and epoch that it has. Without a transactional id Kafka gives it a
  new id all the same, at epoch 0: batches of the old one may still be on their way.
- Needs WRITE on any topic, or IDEMPOTENT_WRITE on the cluster (KIP-679).
- Version 6 is unstable in Kafka and is not offered.
- A transactional id is refused: there are no transactions yet.
"""

from __future__ import annotations

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import InitProducerIdResponse, Message
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import may, may_somewhere
from barbicel.gateway.kafka.refusals import error_code_of

__all__ = ["API"]

NO_ID = -1


def respond(call: Call, request: Message) -> Reply:
    if request.transactional_id == "":
        return _answer(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _answer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not (
        may(call, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, is_quiet=True)
        or may_somewhere(call, Operation.WRITE, Resource.TOPIC)
    ):
        return _answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    known_id, known_epoch = getattr(request, "producer_id", NO_ID), getattr(request, "producer_epoch", NO_ID)
    if (known_id == NO_ID) != (known_epoch == NO_ID) or known_id < NO_ID or known_epoch < NO_ID:
        return _answer(ErrorCode.INVALID_REQUEST)
    return call.broker.new_producer_id().addCallbacks(
        lambda producer_id: _answer(ErrorCode.NONE, producer_id, 0),
        lambda failure: _answer(error_code_of(failure.value)),
    )


def _answer(error_code: ErrorCode, producer_id: int = NO_ID, epoch: int = NO_ID) -> Message:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=error_code, producer_id=producer_id, producer_epoch=epoch
    )


API = Api(22, "InitProducerId", 0, 5, respond)
