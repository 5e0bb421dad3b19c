"""Where the files of a log are. docs/formats/keratin.md shows the directory."""

from __future__ import annotations

from dataclasses import dataclass

from barbicel.codecs.keratin_format import INDEX, SUMS_SUFFIX, TIME_INDEX, segment_name

__all__ = ["ASIDE_MARKS", "Layout"]

# Evidence beside the segments: bytes that recovery cut off, files that a repair replaced.
ASIDE_MARKS = (".torn-", ".corrupt-")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths in one log's directory."""

    root: str

    @property
    def lock(self) -> str:
        return f"{self.root}/LOCK"

    @property
    def manifest(self) -> str:
        return f"{self.root}/manifest.bin"

    @property
    def segments(self) -> str:
        return f"{self.root}/segments"

    @property
    def temporaries(self) -> str:
        return f"{self.root}/tmp"

    @property
    def new_manifest(self) -> str:
        return f"{self.root}/tmp/manifest.new"

    def log(self, base_offset: int) -> str:
        return f"{self.segments}/{segment_name(base_offset, 'log')}"

    def index(self, base_offset: int) -> str:
        return f"{self.segments}/{segment_name(base_offset, INDEX.suffix)}"

    def time_index(self, base_offset: int) -> str:
        return f"{self.segments}/{segment_name(base_offset, TIME_INDEX.suffix)}"

    def index_sums(self, base_offset: int) -> str:
        return f"{self.segments}/{segment_name(base_offset, SUMS_SUFFIX)}"

    def all_of(self, base_offset: int) -> tuple[str, ...]:
        """Every file of a segment, the log first."""
        return (
            self.log(base_offset),
            self.index(base_offset),
            self.time_index(base_offset),
            self.index_sums(base_offset),
        )

    def temporary(self, path: str) -> str:
        """The file under which a new version of `path` is written."""
        return f"{self.temporaries}/{path.rsplit('/', 1)[-1]}.new"
