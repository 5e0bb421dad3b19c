"""What there is of a partition that can be read: stretches of offsets, each in one file or one object."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["LogStretch", "ObjectStretch", "Shape", "Stretch"]


class LogStretch(NamedTuple):
    """The readable part of one segment file: bytes up to size_bytes, offsets up to end_offset."""

    path: str
    base_offset: int
    end_offset: int
    size_bytes: int
    # Where its last record begins, if that was seen.
    last_offset: int = -1
    last_position: int = -1

    @property
    def where(self) -> str:
        return self.path


class ObjectStretch(NamedTuple):
    """A .kfs object, and which of its offsets count."""

    store_url: str
    key: str
    base_offset: int
    end_offset: int
    size_bytes: int
    # Of its latest record, if that is known.
    max_timestamp_ms: int | None = None

    @property
    def where(self) -> str:
        return f"{self.store_url}/{self.key}"


Stretch: TypeAlias = LogStretch | ObjectStretch


class Shape(NamedTuple):
    """All of a partition. Between stretches there may be a hole, which is a loss."""

    start_offset: int
    end_offset: int
    stretches: tuple[Stretch, ...]

    def between(self, from_offset: int, end_offset: int) -> list[Stretch]:
        """Those that hold any of the offsets."""
        return [
            stretch
            for stretch in self.stretches
            if stretch.base_offset < end_offset and stretch.end_offset > from_offset
        ]
