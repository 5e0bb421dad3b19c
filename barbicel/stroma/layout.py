"""Where the files of a group are. docs/formats/stroma.md shows the directory."""

from __future__ import annotations

from dataclasses import dataclass

from barbicel.stroma.names import GroupKey, file_stem

__all__ = ["GroupFiles", "StoreLayout", "data_stem"]

# What a group's state may lie in.
DATA_SUFFIXES = (".snap", ".delta", ".delta.begun")


def data_stem(name: str) -> str | None:
    """The stem of a file that holds a group's state, None for any other name."""
    return next((name.removesuffix(suffix) for suffix in DATA_SUFFIXES if name.endswith(suffix)), None)


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """The paths in a directory of groups."""

    root: str

    @property
    def lock(self) -> str:
        return f"{self.root}/LOCK"

    @property
    def temporaries(self) -> str:
        return f"{self.root}/tmp"

    def files(self, key: GroupKey) -> GroupFiles:
        return GroupFiles(self, file_stem(key))


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """The paths of one group's files."""

    store: StoreLayout
    stem: str

    @property
    def snapshot(self) -> str:
        return f"{self.store.root}/{self.stem}.snap"

    @property
    def delta(self) -> str:
        return f"{self.store.root}/{self.stem}.delta"

    @property
    def begun(self) -> str:
        """The first delta of a new group, under this name until it is durable."""
        return f"{self.delta}.begun"

    @property
    def data(self) -> tuple[str, ...]:
        """All that the group's state may lie in."""
        return tuple(f"{self.store.root}/{self.stem}{suffix}" for suffix in DATA_SUFFIXES)

    @property
    def name(self) -> str:
        return f"{self.store.root}/{self.stem}.name"

    def temporary(self, path: str) -> str:
        """The file under which a new version of `path` is written."""
        return f"{self.store.temporaries}/{path.rsplit('/', 1)[-1]}.new"
