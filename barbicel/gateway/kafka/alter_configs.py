"""AlterConfigs (key 33), versions 0 to 2.

The old way, which AKHQ and old clients use: what is given replaces all that was set on the topic, so a
setting that is left out goes back to the server's. The broker's settings cannot be changed while it runs.
Kafka does not answer at all if a resource is named twice; here that is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import AlterConfigsResponse, Message
from barbicel.gateway.broker.topic_settings import Change, Operation, alter_settings
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.config_resources import Alteration, Resource, alter
from barbicel.gateway.kafka.refusals import note_refusals
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

ResourceRow = AlterConfigsResponse.AlterConfigsResourceResponse


def respond(call: Call, request: Message) -> Reply:
    wanted = [_alteration(asked) for asked in request.resources]
    rows = alter(call, wanted, _row, validate_only=request.validate_only)
    return gather(call, rows, partial(_answer, call))


def _alteration(asked: Any) -> Alteration:
    changes = [Change(setting.name, Operation.SET, setting.value) for setting in asked.configs]

    def change(_: Mapping[str, str]) -> Mapping[str, str]:
        return alter_settings({}, changes)

    return Alteration(
        Resource(asked.resource_type, asked.resource_name), [change.name for change in changes], change
    )


def _row(resource: Resource, error_code: ErrorCode, message: str | None) -> Message:
    return ResourceRow(
        error_code=error_code,
        error_message=message,
        resource_type=resource.type,
        resource_name=resource.name,
    )


def _answer(call: Call, rows: list[Any]) -> Message:
    note_refusals(call, "AlterConfigs", rows)
    return AlterConfigsResponse(throttle_time_ms=0, responses=rows)


API = Api(33, "AlterConfigs", 0, 2, respond, is_alone=True)
