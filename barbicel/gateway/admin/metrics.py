"""Metrics: what a collector is, the registry of all of them, and Prometheus' text format (version 0.0.4).

Any part adds collectors of its own before the server starts. One that has to be asked first is a survey: it
gives its collectors when a scrape comes. Names and labels are ours, values of labels may be anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

__all__ = ["CONTENT_TYPE", "Collector", "Family", "MetricType", "Registry", "Sample", "Survey", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MetricType: TypeAlias = Literal["counter", "gauge", "histogram"]


class Sample(NamedTuple):
    """One line. A histogram's have the suffixes _bucket (with the label le), _sum and _count."""

    value: float
    labels: Sequence[tuple[str, str]] = ()
    suffix: str = ""


class Collector(Protocol):
    """One metric. `samples` is asked at every scrape, in the reactor's thread, and must not wait."""

    @property
    def name(self) -> str: ...

    @property
    def help(self) -> str: ...

    @property
    def type(self) -> MetricType: ...

    def samples(self) -> Iterable[Sample]: ...


class Family(NamedTuple):
    """A collector made of a function. Whatever has the same four may be one too."""

    name: str
    help: str
    type: MetricType
    samples: Callable[[], Iterable[Sample]]


Survey: TypeAlias = Callable[[], Awaitable[Sequence[Collector]]]


class Registry:
    def __init__(self) -> None:
        self._collectors: dict[str, Collector] = {}
        self._surveys: list[Survey] = []

    def add(self, collector: Collector) -> None:
        """ValueError if the name is taken."""
        if collector.name in self._collectors:
            raise ValueError(f"there is a metric {collector.name} already")
        self._collectors[collector.name] = collector

    def add_survey(self, survey: Survey) -> None:
        self._surveys.append(survey)

    async def collectors(self) -> list[Collector]:
        """All of them, those of surveys last."""
        found = list(self._collectors.values())
        for survey in self._surveys:
            found += await survey()
        return found


def render(collectors: Iterable[Collector]) -> Iterator[str]:
    """The lines of the page, one sample a line, each with its end."""
    for collector in collectors:
        name = collector.name
        yield f"# HELP {name} {_escape_help(collector.help)}\n# TYPE {name} {collector.type}\n"
        for value, labels, suffix in collector.samples():
            yield f"{name}{suffix}{_labels(labels)} {_number(value)}\n"


def _labels(labels: Sequence[tuple[str, str]]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
