"""GET /api/groups, /api/groups/<name>: who has consumed what, Kafka's groups and Kestrel's lines in one list.

A group's lag is what Kafka's tools tell: the end of each partition less the committed offset. A line's lag is
how many items can be had from it, and inflight what is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barbicel.gateway.admin.api.paging import take_page
from barbicel.gateway.admin.api.positions import Position, Positions
from barbicel.gateway.admin.exchange import Asked, Refusal
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.kestrel.queues import Queues
from barbicel.kestrel_compat.names import is_reserved_group
from barbicel.kestrel_compat.stats import QueueStats

__all__ = ["GroupsApi"]


class GroupsApi:
    def __init__(self, broker: Broker, positions: Positions, queues: Queues | None) -> None:
        self._broker = broker
        self._positions = positions
        self._queues = queues

    async def list_groups(self, asked: Asked) -> dict[str, Any]:
        text = asked.query.get("search", "")
        names, page = take_page(asked, [named for named in self._names() if text in named[0]])
        rows = [self._line_row(name) if is_line else await self._group_row(name) for name, is_line in names]
        return {"groups": rows, **page.about()}

    def _names(self) -> list[tuple[str, bool]]:
        """Each with whether it is a line of a queue."""
        members = {group.group_id for group in self._broker.coordinator.list_groups()}
        known = set(self._broker.offsets.groups())
        self._positions.forget_others(known)
        groups = {name for name in known if not is_reserved_group(name)}
        lines = [] if self._queues is None else self._queues.names()
        return sorted([*((name, False) for name in members | groups), *((name, True) for name in lines)])

    async def show_group(self, asked: Asked) -> dict[str, Any]:
        name = asked.names["name"]
        described = self._broker.coordinator.describe(name)
        if is_reserved_group(name) or (described is None and not self._broker.offsets.places(name)):
            raise Refusal(404, "there is no such group")
        positions = await self._positions.of(name)
        members = () if described is None else described.members
        return {
            **_summary(name, self._state(name), len(members), positions),
            "positions": [{**position._asdict(), "lag": position.lag} for position in positions],
            "member_rows": [
                {
                    "member_id": member.member_id,
                    "instance_id": member.group_instance_id,
                    "client_id": member.client_id,
                    "host": member.client_host,
                }
                for member in members
            ],
        }

    def _state(self, name: str) -> str:
        described = self._broker.coordinator.describe(name)
        return "Empty" if described is None else described.state.value

    async def _group_row(self, name: str) -> dict[str, Any]:
        described = self._broker.coordinator.describe(name)
        members = 0 if described is None else len(described.members)
        return _summary(name, self._state(name), members, await self._positions.of(name))

    def _line_row(self, name: str) -> dict[str, Any]:
        row = {"name": name, "kind": "kestrel", "topics": 1}
        stats = None if self._queues is None else self._queues.queue_stats(name)
        if not isinstance(stats, QueueStats):
            return {**row, "state": "NotOpened", "members": 0, "lag": None, "inflight": None}
        return {
            **row,
            "state": "Open",
            "members": stats.waiters,
            "lag": stats.items,
            "inflight": stats.open_transactions,
        }


def _summary(name: str, state: str, members: int, positions: Sequence[Position]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "kafka",
        "state": state,
        "members": members,
        "topics": len({position.topic for position in positions}),
        "lag": sum([position.lag for position in positions]),
        "inflight": 0,
    }
