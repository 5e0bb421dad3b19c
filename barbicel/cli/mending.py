"""What a repair did, of a log or of groups: the two differ in what they find, not in how that is told."""

from __future__ import annotations

from enum import IntEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

__all__ = ["DRY_RUN_TEXT", "Repair"]

DRY_RUN_TEXT = "Nothing was changed: this was a dry run, --apply carries it out."


class _Findings(Protocol):
    @property
    def asides(self) -> tuple[str, ...]: ...

    @property
    def verdict(self) -> IntEnum: ...


AnyFindings = TypeVar("AnyFindings", bound=_Findings)


class Repair(NamedTuple, Generic[AnyFindings]):
    """Before and after; `after` is None if nothing was done."""

    before: AnyFindings
    after: AnyFindings | None

    @property
    def evidence(self) -> tuple[str, ...]:
        """The files that were kept aside."""
        after = () if self.after is None else self.after.asides
        known = set(self.before.asides)
        return tuple(path for path in after if path not in known)

    @property
    def exit_code(self) -> int:
        """That of what is there now."""
        return (self.before if self.after is None else self.after).verdict.value
