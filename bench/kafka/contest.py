"""Rounds of one job on several servers, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

from bench.kafka.scale import MessageSize, Scale
from bench.kafka.servers import AGAINST, KAFKA, Server, processor_seconds
from bench.report import Measurement, Target, compare
from bench.rounds import interleave

__all__ = ["Contest", "Race"]

# One run on a server: messages in a second.
Race = Callable[[Server], float]
MEGABYTE = 1e6


class Contest:
    """A job that each server does in each round. A round before does not count: Java compiles as it runs."""

    def __init__(
        self,
        name: str,
        servers: Mapping[str, Server],
        size: MessageSize,
        messages: int,
        race: Race,
        *,
        scale: Scale,
    ) -> None:
        self._name = name
        self._size = size
        self._megabytes = messages * size.size_bytes / MEGABYTE
        self._processor_ms: dict[str, list[float]] = {one: [] for one in servers}
        contenders = {one: partial(self._run, one, server, race) for one, server in servers.items()}
        for server in list(servers.values()) * scale.uncounted_rounds:
            race(server)
        self.rates = interleave(contenders, scale.rounds)

    def _run(self, name: str, server: Server, race: Race) -> float:
        before_s = processor_seconds(server.pid)
        rate = race(server)
        used_ms = (processor_seconds(server.pid) - before_s) * 1000
        self._processor_ms[name].append(used_ms / self._megabytes)
        return rate

    def rows(self, server: str, reading: str, target: Target | None = None) -> list[Measurement]:
        """A server's bytes and messages against Kafka's."""
        name = f"{self._name}, {server}"
        return [
            compare(
                name,
                "MB/s",
                self._megabytes_a_second(server),
                self._megabytes_a_second(KAFKA),
                against=AGAINST,
                reading=reading,
                target=target,
            ),
            Measurement(
                f"{name}: messages",
                median(self.rates[server]),
                "messages/s",
                f"the same, counted in messages; Kafka's were {median(self.rates[KAFKA]):,.0f}.",
            ),
        ]

    def processor_row(self, server: str) -> Measurement:
        return compare(
            f"{self._name}, {server}: server's processor",
            "ms/MB",
            self._processor_ms[server],
            self._processor_ms[KAFKA],
            against=AGAINST,
            reading="the time on all cores that the server took for it, which the clients' pace and the"
            " machine's other work matter less to; Kafka's includes what its compiler took meanwhile.",
        )

    def _megabytes_a_second(self, server: str) -> list[float]:
        return [rate * self._size.size_bytes / MEGABYTE for rate in self.rates[server]]
