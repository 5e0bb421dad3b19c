"""Which groups a directory holds, told by its file names, and by `.name` files where a name is a hash.

A `.name` that is missing, or no file, is nobody's name. One that cannot be read for another reason holds up
nothing: all other groups come first, then its error is raised.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator

from barbicel.disk import Disk, read_file
from barbicel.errors import DiskError
from barbicel.stroma.layout import StoreLayout, data_stem
from barbicel.stroma.names import (
    MAX_NAME_BYTES,
    GroupKey,
    file_stem,
    is_hashed,
    parse_full_name,
    parse_stem,
    render_prefix,
)

__all__ = ["list_groups", "list_groups_of", "read_hashed_key"]

# What opening a name says that is gone, a directory, a pipe, or a link into nowhere.
NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP})


def list_groups(disk: Disk, layout: StoreLayout) -> Iterator[GroupKey]:
    """Every group in a directory; names that are no group's are passed over. Raises DiskError at the end."""
    names = (entry.name for entry in disk.list(layout.root) if not entry.is_directory)
    return _keys(disk, layout, _stems(names))


def list_groups_of(disk: Disk, layout: StoreLayout, topic: str, partition: int) -> Iterator[GroupKey]:
    """Every group of one partition. Costs one look at the names, and a read for each one that is a hash."""
    prefix = render_prefix(topic, partition)
    stems = _stems(disk.names(layout.root))
    near = (stem for stem in stems if stem.startswith(prefix) or is_hashed(stem))
    for key in _keys(disk, layout, near):
        # A name alone may be that of a directory.
        is_file = any(disk.size(path) is not None for path in layout.files(key).data)
        if key[:2] == (topic, partition) and is_file:
            yield key


def read_hashed_key(disk: Disk, layout: StoreLayout, stem: str) -> GroupKey | None:
    """The key of a group whose files have a hash for a name, None if nobody knows it. Raises DiskError."""
    try:
        full = read_file(disk, f"{layout.root}/{stem}.name", MAX_NAME_BYTES)
    except DiskError as error:
        if error.errno in NO_FILE:
            return None
        raise
    key = parse_full_name(full.decode("ascii", "replace"))
    return key if key is not None and file_stem(key) == stem else None


def _stems(names: Iterable[str]) -> Iterator[str]:
    stems = (data_stem(name) for name in names)
    return iter(dict.fromkeys(stem for stem in stems if stem is not None))


def _keys(disk: Disk, layout: StoreLayout, stems: Iterable[str]) -> Iterator[GroupKey]:
    failure: DiskError | None = None
    for stem in stems:
        try:
            key = read_hashed_key(disk, layout, stem) if is_hashed(stem) else parse_stem(stem)
        except DiskError as error:
            failure = failure or error
        else:
            if key is not None:
                yield key
    if failure is not None:
        raise failure
