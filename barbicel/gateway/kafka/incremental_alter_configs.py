"""IncrementalAlterConfigs (key 44), versions 0 to 1.

Sets, takes back, adds to and takes from single settings of topics (KIP-339). All changes of one topic are
made together or not at all, on the settings in force when it is their turn, so that two requests at once both
count. An operation that nobody knows is INVALID_REQUEST; Kafka fails there with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import IncrementalAlterConfigsResponse, Message
from barbicel.gateway.broker.topic_errors import InvalidRequest
from barbicel.gateway.broker.topic_settings import Change, Operation, alter_settings
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.config_resources import Alteration, Resource, alter
from barbicel.gateway.kafka.refusals import note_refusals
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

ResourceRow = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


def respond(call: Call, request: Message) -> Reply:
    wanted = [_alteration(asked) for asked in request.resources]
    rows = alter(call, wanted, _row, validate_only=request.validate_only)
    return gather(call, rows, partial(_answer, call))


def _alteration(asked: Any) -> Alteration:
    def change(current: Mapping[str, str]) -> Mapping[str, str]:
        return alter_settings(current, [_change(setting) for setting in asked.configs])

    set_names = [setting.name for setting in asked.configs if setting.config_operation != Operation.DELETE]
    return Alteration(Resource(asked.resource_type, asked.resource_name), set_names, change)


def _change(setting: Any) -> Change:
    try:
        operation = Operation(setting.config_operation)
    except ValueError:
        raise InvalidRequest(f"{setting.name!r}: there is no operation {setting.config_operation}") from None
    return Change(setting.name, operation, setting.value)


def _row(resource: Resource, error_code: ErrorCode, message: str | None) -> Message:
    return ResourceRow(
        error_code=error_code,
        error_message=message,
        resource_type=resource.type,
        resource_name=resource.name,
    )


def _answer(call: Call, rows: list[Any]) -> Message:
    note_refusals(call, "IncrementalAlterConfigs", rows)
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=rows)


API = Api(44, "IncrementalAlterConfigs", 0, 1, respond, is_alone=True)
