"""The real disk, noting the size of every write to a segment: so that a peer can write the same ones."""

from __future__ import annotations

from collections.abc import Sequence

from barbicel.disk import Bytes, OpenMode, RealDisk, RealFile

__all__ = ["CountingDisk"]


class CountingFile(RealFile):
    __slots__ = ("_sizes",)

    def __init__(self, path: str, mode: OpenMode, sizes: list[int]) -> None:
        super().__init__(path, mode)
        self._sizes = sizes

    def append(self, pieces: Sequence[Bytes]) -> None:
        before = self.end
        super().append(pieces)
        self._sizes.append(self.end - before)


class CountingDisk(RealDisk):
    """`sizes` grows by one entry for each write of records; headers, indexes and manifests do not count."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def open(self, path: str, mode: OpenMode) -> RealFile:
        if mode == "write" and path.endswith(".log"):
            return CountingFile(path, mode, self.sizes)
        return super().open(path, mode)
