"""Which groups a directory holds, told by its file names, and by `.name` files where a name is a hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barbicel.disk import Disk, read_file
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import GroupKey, file_stem, is_hashed, parse_full_name, parse_stem, render_prefix

__all__ = ["list_groups", "list_groups_of"]

# Kafka's longest group and topic names, every byte escaped.
MAX_NAME_BYTES = 1 << 18


def list_groups(disk: Disk, layout: StoreLayout) -> Iterator[GroupKey]:
    """Every group in a directory; names that are no group's are passed over."""
    names = (entry.name for entry in disk.list(layout.root) if not entry.is_directory)
    return _keys(disk, layout, _stems(names))


def list_groups_of(disk: Disk, layout: StoreLayout, topic: str, partition: int) -> Iterator[GroupKey]:
    """Every group of one partition. Costs one look at the names, and a read for each one that is a hash."""
    prefix = render_prefix(topic, partition)
    stems = _stems(disk.names(layout.root))
    near = (stem for stem in stems if stem.startswith(prefix) or is_hashed(stem))
    for key in _keys(disk, layout, near):
        files = layout.files(key)
        # A name alone may be that of a directory.
        is_file = disk.size(files.delta) is not None or disk.size(files.snapshot) is not None
        if key[:2] == (topic, partition) and is_file:
            yield key


def _stems(names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if dot and suffix in ("snap", "delta") and stem not in seen:
            seen.add(stem)
            yield stem


def _keys(disk: Disk, layout: StoreLayout, stems: Iterable[str]) -> Iterator[GroupKey]:
    for stem in stems:
        key = _hashed_key(disk, layout, stem) if is_hashed(stem) else parse_stem(stem)
        if key is not None:
            yield key


def _hashed_key(disk: Disk, layout: StoreLayout, stem: str) -> GroupKey | None:
    path = f"{layout.root}/{stem}.name"
    if not disk.exists(path):
        return None
    key = parse_full_name(read_file(disk, path, MAX_NAME_BYTES).decode("ascii", "replace"))
    return key if key is not None and file_stem(key) == stem else None
