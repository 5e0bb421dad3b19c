"""GET /metrics. Scrapes that come while one is under way share its answer: many are no more work than one."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from barbicel.gateway.admin.exchange import Answer, Asked
from barbicel.gateway.admin.metrics import CONTENT_TYPE, Registry, render
from barbicel.gateway.admin.turns import in_turns
from barbicel.gateway.twisted_types import Reactor

__all__ = ["MetricsPage"]

LINES_A_TURN = 500


class MetricsPage:
    def __init__(self, registry: Registry, reactor: Reactor) -> None:
        self._registry = registry
        self._reactor = reactor
        self._waiting: list[Deferred[Answer]] = []

    async def show(self, asked: Asked) -> Answer:
        answer: Deferred[Answer] = Deferred()
        self._waiting.append(answer)
        if len(self._waiting) == 1:
            Deferred.fromCoroutine(self._scrape()).addBoth(self._tell)
        return await answer

    async def _scrape(self) -> Answer:
        collectors = await self._registry.collectors()
        lines = await in_turns(self._reactor, render(collectors), LINES_A_TURN)
        return Answer(200, CONTENT_TYPE, "".join(lines).encode())

    def _tell(self, outcome: Any) -> None:
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer.callback(outcome)  # a Failure makes it fail
