"""What a caller gives to a store bit by bit: errors of its own are the caller's, not the store's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["Given"]

T = TypeVar("T")
Answer = TypeVar("Answer")


class Given(Generic[T]):
    """An iterator. `error` is the exception that what was given has raised, if any."""

    def __init__(self, source: Iterable[T]) -> None:
        self.error: BaseException | None = None
        self._source = iter(source)

    def __iter__(self) -> Given[T]:
        return self

    def __next__(self) -> T:
        return self.asking(self._source.__next__)

    def asking(self, ask: Callable[[], Answer]) -> Answer:
        """What something else says that the caller gave along."""
        try:
            return ask()
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise
