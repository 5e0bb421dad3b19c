"""One setting as a value, where a value came from, and how it is said what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from barbicel.config.values import Rule
from barbicel.errors import BarbicelError

__all__ = ["DEFAULT", "ConfigError", "Origin", "Setting", "row", "shown", "suggestion"]


class ConfigError(BarbicelError):
    """Settings that cannot be used. `problems` has a line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Origin(NamedTuple):
    """Where a value came from; `where` names the file and key, the variable or the flag."""

    kind: Literal["default", "file", "environment", "flag"]
    where: str

    def __str__(self) -> str:
        return self.where


DEFAULT = Origin("default", "the default")


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    rule: Rule
    default: Any
    doc: str
    section: str | None  # opens a section of the example file

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def variable(self) -> str:
        return f"BARBICEL_{self.attribute.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('.', '-')}"


def row(name: str, default: Any, rule: Rule, doc: str, *, section: str | None = None) -> Any:
    """A field of a dataclass that carries its setting."""
    return field(default=default, metadata={"setting": Setting(name, rule, default, doc, section)})


def shown(given: object) -> str:
    """A value in a message, cut if it is long."""
    return repr(given) if len(repr(given)) <= 80 else f"{repr(given)[:80]}…"


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant by a name that nobody knows."""
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f", did you mean {close[0]}?" if close else ", see barbicel.toml.example"
