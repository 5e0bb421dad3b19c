"""A disk in memory that can lose power, run full, go read-only and fail on demand.

`FaultDisk` is a `barbicel.disk.Disk` with the error names and numbers of `RealDisk`. Its invariant:
no byte and no name is durable before the call that promises it; in doubt it promises less than
Linux. A campaign looks at many ends of one running program:

    def cut(call: Call) -> None:
        found = disk.crash(Fate.TEAR, rng)  # the disk as the next process finds it
        ...

    disk.observer = cut

One thread appends at a time; another one may sync, and any number may read. A failed
`sync_directory` may be tried again: a file system that cannot write names stops, it does not lie.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from barbicel.disk import Bytes, Entry, OpenMode, Space, check_within
from barbicel.errors import LogLocked
from tests.support.faults import Call, Fault, Gate, Operation, PowerCut, naming
from tests.support.inodes import SECTOR_BYTES, Directory, Fate, Inode, Node, survivor
from tests.support.tree import Tree, os_error

__all__ = [
    "SECTOR_BYTES",
    "Call",
    "Fate",
    "FaultDisk",
    "FaultFile",
    "FaultLock",
    "FaultMappedFile",
    "Operation",
    "PowerCut",
]


# What a disk without a limit says that it has.
UNLIMITED_BYTES = 1 << 50


class _Append(NamedTuple):
    """An append that is announced and not done yet."""

    inode: Inode
    position: int
    data: bytes


class FaultDisk(Gate):
    """See the module, and `Gate` for `calls`, `observer`, `observe_reads` and `fail`."""

    def __init__(self) -> None:
        super().__init__()
        self.read_only = False
        # Of all files that have a name.
        self.capacity_bytes: int | None = None
        self._tree = Tree()
        self._under_way: _Append | None = None

    # For programs: barbicel.disk.Disk.

    def open(self, path: str, mode: OpenMode) -> FaultFile:
        is_new = mode in ("create", "create_private")
        with self.passing("create" if is_new else "open", path):
            inode = self._create(path) if is_new else self._tree.inode(path)
            if mode == "write":
                self.need_writable()
        return FaultFile(self, inode, path, mode)

    def list(self, path: str) -> list[Entry]:
        with self.passing("list", path):
            return sorted(
                Entry(name, len(node.current), False) if isinstance(node, Inode) else Entry(name, 0, True)
                for name, node in self._tree.directory(path).entries.items()
            )

    def names(self, path: str) -> Sequence[str]:
        return [entry.name for entry in self.list(path)]

    def size(self, path: str) -> int | None:
        with self.passing("stat", path):
            try:
                return len(self._tree.inode(path).current)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
                    return None
                raise

    def exists(self, path: str) -> bool:
        try:
            self._tree.node(path)
        except OSError:
            return False
        return True

    def modified_ms(self, path: str) -> int:
        """Time stands still here."""
        return 0

    def identity(self, path: str) -> str:
        with self.passing("stat", path):
            inode = self._tree.inode(path)
            return f"{inode.written_at:x}-{len(inode.current):x}"

    def unchanged_since(self, directory: str, path: str) -> bool:
        try:
            return self._tree.directory(directory).changed_at < self._tree.inode(path).written_at
        except OSError:
            return False

    def space(self, path: str) -> Space:
        with self.passing("stat", path):
            self._tree.node(path)
            total = UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes
            return Space(total, self.room_bytes(total))

    def make_directory(self, path: str) -> None:
        with self.passing("mkdir", path):
            if self.read_only and not self.exists(path):
                raise os_error(errno.EROFS)
            self._tree.make_directories(path)

    def sync_directory(self, path: str) -> None:
        with self.passing("fsync", path):
            directory = self._tree.directory(path)
            if directory.changes:
                self.need_writable()
                directory.sync()

    def rename(self, source: str, target: str) -> None:
        with self.passing("rename", source, target=target):
            self.need_writable()
            self._tree.rename(source, target)

    def unlink(self, path: str) -> None:
        with self.passing("unlink", path):
            self.need_writable()
            self._tree.inode(path)
            directory, name = self._tree.parent(path)
            directory.change({name: None})

    def remove_directory(self, path: str) -> None:
        with self.passing("rmdir", path):
            self.need_writable()
            if self._tree.directory(path).entries:
                raise os_error(errno.ENOTEMPTY)
            directory, name = self._tree.parent(path)
            directory.change({name: None})

    def resolve(self, path: str) -> str:
        return posixpath.normpath(f"/{path.lstrip('/')}")

    def lock(self, path: str) -> FaultLock:
        with self.passing("lock", path):
            pass  # what a test injects has flock's name, the rest has open's
        with self._mutex, naming("open", path):
            inode = self._tree.inode(path) if self.exists(path) else self._create(path)
            self.need_writable()
            if inode.locked:
                holder = inode.current[:20].decode("ascii", "replace").strip() or "unknown"
                raise LogLocked(
                    f"already open by process {holder}",
                    path=path,
                    hint="only one process may write a log",
                )
            return FaultLock(inode)

    def lock_holder(self, path: str) -> str | None:
        if not self.exists(path):
            return None
        with self.passing("open", path):
            inode = self._tree.inode(path)
            if not inode.locked:
                return None
            return inode.current[:20].decode("ascii", "replace").strip() or "unknown"

    # For tests.

    def crash(self, fate: Fate, rng: Random, *, torn_append: int | None = None) -> FaultDisk:
        """The disk that is found after a crash now: synced, unlocked, healthy and unobserved.

        This disk does not change. With `torn_append`, in an observer that is told of a "write", the
        crash comes when so many bytes of that append are written.
        """
        with self._mutex:
            known: dict[Node, Node] = {}
            if torn_append is not None:
                if self._under_way is None:
                    raise ValueError("no append is under way")
                inode, position, data = self._under_way
                torn = inode.with_write(position, data[:torn_append])
                known[inode] = Inode(torn.content_after(fate, rng))
            root = survivor(self._tree.root, fate, rng, known)
        assert isinstance(root, Directory)
        found = FaultDisk()
        found._tree = Tree(root)
        return found

    def files(self) -> dict[str, bytes]:
        """The content of every file by its absolute path, as programs read it now."""
        return {path: bytes(inode.current) for path, inode in self._tree.files()}

    def put(self, path: str, data: bytes) -> None:
        """Make `data` a file's whole content, durably and unseen by observers and faults."""
        with self._mutex:
            self._tree.make_directories(os.path.dirname(path) or "/")
            directory, name = self._tree.parent(path)
            inode = self._tree.inode(path) if name in directory.entries else Inode()
            inode.replace(bytes(data))
            directory.link_durably(name, inode)

    # For the files of this disk.

    def need_writable(self) -> None:
        if self.read_only:
            raise os_error(errno.EROFS)

    def room_bytes(self, wanted: int) -> int:
        """How much of the growth by `wanted` bytes there is room for."""
        if self.capacity_bytes is None or wanted <= 0:
            return wanted
        return max(0, min(wanted, self.capacity_bytes - self.used_bytes))

    @property
    def used_bytes(self) -> int:
        inodes = {inode for _, inode in self._tree.files()}
        return sum(len(inode.current) for inode in inodes)

    @contextmanager
    def appending(self, path: str, inode: Inode, position: int, data: bytes) -> Iterator[None]:
        def damage(fault: Fault) -> None:
            inode.write(position, data[: fault.partial])

        self._under_way = _Append(inode, position, data)
        try:
            with self.passing("write", path, data=data, damage=damage):
                yield
        finally:
            self._under_way = None

    def _create(self, path: str) -> Inode:
        if self.exists(path):
            raise os_error(errno.EEXIST)
        directory, name = self._tree.parent(path)
        self.need_writable()
        inode = Inode()
        directory.change({name: inode})
        return inode


class FaultFile:
    """A handle; it goes on working when its file is unlinked or replaced."""

    __slots__ = ("_disk", "_inode", "_open", "_writable", "end", "path")

    def __init__(self, disk: FaultDisk, inode: Inode, path: str, mode: OpenMode) -> None:
        self.path = path
        self.end = len(inode.current)
        self._disk = disk
        self._inode = inode
        self._open = True
        self._writable = mode != "read"

    def append(self, pieces: Sequence[Bytes]) -> None:
        data = b"".join(pieces)
        with self._disk.appending(self.path, self._inode, self.end, data):
            self._need_writable(errno.EBADF)
            _check_not_negative(self.end)
            growth = self.end + len(data) - len(self._inode.current)
            missing = growth - self._disk.room_bytes(growth)
            self._inode.write(self.end, data[: max(0, len(data) - missing)])
            if missing > 0:
                raise os_error(errno.ENOSPC)
        self.end += len(data)

    def pread(self, size: int, position: int) -> bytes:
        with self._disk.passing("read", self.path):
            self._need_open()
            # A slice would count negative numbers from the end.
            _check_not_negative(size, position)
            return bytes(self._inode.current[position : position + size])

    def pread_into(self, buffer: memoryview, position: int) -> int:
        data = self.pread(len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, data: Bytes, position: int) -> None:
        end = self.end
        self.end = position
        try:
            self.append([data])
        finally:
            self.end = end

    def map(self, size: int) -> FaultMappedFile:
        with self._disk.passing("map", self.path):
            self._need_open()
            if not 0 < size <= len(self._inode.current):
                raise os_error(errno.EINVAL)
            if not self._writable:
                raise os_error(errno.EACCES)
        return FaultMappedFile(self._disk, self._inode, self.path, size)

    def size(self) -> int:
        with self._disk.passing("stat", self.path):
            self._need_open()
            return len(self._inode.current)

    def preallocate(self, size: int) -> None:
        with self._disk.passing("preallocate", self.path, size=size):
            growth = size - len(self._inode.current)
            if size > 0:
                self._need_writable(errno.EBADF)
            if growth > 0:
                if self._disk.room_bytes(growth) < growth:
                    raise os_error(errno.ENOSPC)
                self._inode.resize(size)

    def truncate(self, size: int) -> None:
        with self._disk.passing("truncate", self.path, size=size):
            self._need_writable(errno.EINVAL)
            _check_not_negative(size)
            self._inode.resize(size)
        self.end = size

    def fdatasync(self) -> None:
        with self._disk.passing("fdatasync", self.path, damage=lambda _: self._inode.forget()):
            self._need_open()
            if self._inode.is_dirty():
                self._disk.need_writable()
            self._inode.sync()

    def close(self) -> None:
        if self._open:
            self._open = False
            with self._disk.passing("close", self.path):
                pass

    def _need_open(self) -> None:
        if not self._open:
            raise os_error(errno.EBADF)

    def _need_writable(self, error: int) -> None:
        """`error` is what the system call has for a handle that only reads."""
        self._need_open()
        if not self._writable:
            raise os_error(error)
        self._disk.need_writable()


class FaultMappedFile:
    """Memory over an inode: the kernel writes its sectors back whenever it likes, until they are synced.

    A copy into it is announced as a "write", so that a crash can come between any two of its bytes.
    """

    __slots__ = ("_disk", "_inode", "_open", "_path", "size")

    def __init__(self, disk: FaultDisk, inode: Inode, path: str, size: int) -> None:
        self.size = size
        self._disk = disk
        self._inode = inode
        self._path = path
        self._open = True

    def write(self, position: int, data: Bytes) -> None:
        if not self._open:
            raise ValueError("mmap closed or invalid")
        check_within(position, len(data), self.size)
        with self._disk.appending(self._path, self._inode, position, bytes(data)):
            if position + len(data) > len(self._inode.current):
                raise AssertionError("SIGBUS: the file was cut while it was mapped")
            self._inode.write(position, bytes(data))

    def close(self) -> None:
        self._open = False


class FaultLock:
    """A lock on an inode, as flock's: it does not outlive a crash."""

    def __init__(self, inode: Inode) -> None:
        self._inode: Inode | None = inode
        inode.locked = True
        # As RealLock: for people, and never synced.
        inode.write(0, b"%-20d" % os.getpid())

    def release(self) -> None:
        if self._inode is not None:
            self._inode.locked = False
            self._inode = None


def _check_not_negative(*numbers: int) -> None:
    if min(numbers) < 0:
        raise os_error(errno.EINVAL)
