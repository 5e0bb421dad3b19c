"""The only door to the file system.

Everything that Barbicel keeps goes through `Disk` and `File`, so that a test can put a disk that loses
power behind the same code. Two rules follow for whoever writes through it:

- written is not durable: bytes are safe after `File.fdatasync`, names after `Disk.sync_directory`;
- after a failed write or sync nothing is tried again on that file: the page cache may answer with what
  never reached the disk.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, Protocol, TypeAlias

from barbicel.errors import DiskError, LogLocked

__all__ = [
    "TICK_MS",
    "Bytes",
    "Disk",
    "Entry",
    "File",
    "Lock",
    "MappedFile",
    "OpenMode",
    "RealDisk",
    "Replacement",
    "Space",
    "copy_file",
    "parent",
    "read_file",
    "remove_tree",
    "replace_file",
    "replace_files",
]

Bytes: TypeAlias = bytes | bytearray | memoryview

# "read" and "write" want an existing file, the others an absent one; a private one is its owner's alone.
OpenMode = Literal["read", "write", "create", "create_private"]

COPY_CHUNK_BYTES = 1 << 20
# Below this mean size of a piece, copying pieces together is cheaper than handing the kernel a vector.
VECTOR_PIECE_BYTES = 4096
VECTOR_PIECES_MAX = 1024  # IOV_MAX on Linux
# No file system's clock stands still for longer.
TICK_MS = 20
LOCK_TRIES = 20
LOCK_PAUSE_SECONDS = 0.001


class Entry(NamedTuple):
    """One name in a directory. A directory has size 0."""

    name: str
    size: int
    is_directory: bool


class Space(NamedTuple):
    """Of the file system that a path lies in: what it has, and what this process may still write."""

    total_bytes: int
    usable_bytes: int


class Lock(Protocol):
    """A lock that is held until it is released or its process ends."""

    def release(self) -> None: ...


class MappedFile(Protocol):
    """A stretch of memory that is the beginning of a file.

    What is written may reach the disk at any time and in any order, and has reached it once the file's
    `fdatasync` returns. The file must have the bytes, preallocated, before they are written: memory has no
    way to say that the disk is full.
    """

    size: int

    def write(self, position: int, data: Bytes) -> None:
        """Copy data into the file; it must lie within the mapping."""

    def close(self) -> None:
        """What was written stays in the file. It must not be cut while it is mapped."""


class File(Protocol):
    """An open file. `end` is where the next append goes; it starts at the file's size."""

    path: str
    end: int

    def append(self, pieces: Sequence[Bytes]) -> None:
        """Write all pieces at `end`, then move `end`. On an error `end` stays and the bytes are undefined."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position`; the answer is smaller than the buffer only at the file's end."""

    def pwrite(self, data: Bytes, position: int) -> None:
        """Overwrite bytes in one call; `end` stays. On an error they are undefined."""

    def map(self, size: int) -> MappedFile:
        """Map the first `size` bytes, which the file must have, for writing."""

    def size(self) -> int: ...

    def preallocate(self, size: int) -> None:
        """Make the file `size` bytes long, zeros behind its present content. Never shortens it."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes and move `end` there."""

    def fdatasync(self) -> None:
        """On return everything written, and the size, survives a power cut."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Every path is absolute or relative to the process, never escaped here."""

    def open(self, path: str, mode: OpenMode) -> File: ...

    def list(self, path: str) -> list[Entry]:
        """The names in a directory, sorted."""

    def names(self, path: str) -> Sequence[str]:
        """The names in a directory, in no order: less than `list` tells, at a fraction of its cost."""

    def size(self, path: str) -> int | None:
        """The size of a file, None if there is no file of that name."""

    def exists(self, path: str) -> bool: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last changed; 0 for a link that leads nowhere."""

    def identity(self, path: str) -> str:
        """What tells a file from any other that has, had or will have its name, and from itself once changed.

        A rename keeps it. Of a file that was removed within the tick of the clock that it was written in,
        it may come back: see `TICK_MS`.
        """

    def unchanged_since(self, directory: str, path: str) -> bool:
        """Whether no name in a directory came or went since a file was written; False if in doubt."""

    def space(self, path: str) -> Space: ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, durably. One that exists is left as it is."""

    def sync_directory(self, path: str) -> None:
        """On return every create, rename and unlink in the directory survives a power cut."""

    def rename(self, source: str, target: str) -> None:
        """Atomically put `source` in `target`'s place."""

    def unlink(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def resolve(self, path: str) -> str:
        """The path as an absolute one without links: two paths to one place are equal."""

    def lock(self, path: str) -> Lock:
        """Lock a file (created if absent) for this opener alone, or raise LogLocked at once."""

    def lock_holder(self, path: str) -> str | None:
        """The process that holds a lock ("unknown" if it does not say), or None. Changes nothing."""


@contextmanager
def _naming(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise DiskError(operation, path, cause) from cause


_OPEN_FLAGS: dict[OpenMode, int] = {
    "read": os.O_RDONLY,
    "write": os.O_RDWR,
    "create": os.O_RDWR | os.O_CREAT | os.O_EXCL,
    "create_private": os.O_RDWR | os.O_CREAT | os.O_EXCL,
}
_USUAL_PERMISSIONS = 0o644
_PERMISSIONS: dict[OpenMode, int] = {"create_private": 0o600}


def _open_file(path: str, flags: int, permissions: int = _USUAL_PERMISSIONS) -> tuple[int, int]:
    """A descriptor and the file's size.

    Not blocking, because opening a pipe would wait for its other end; a regular file does not care.
    """
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, permissions)
    status = os.fstat(fd)
    refusal = _REFUSED.get(stat.S_IFMT(status.st_mode))
    if refusal is None:
        return fd, status.st_size
    os.close(fd)
    raise OSError(*refusal)


_REFUSED = {
    stat.S_IFDIR: (errno.EISDIR, os.strerror(errno.EISDIR)),
    stat.S_IFIFO: (errno.EINVAL, "a pipe, not a regular file"),
}


class RealFile:
    """A file descriptor and the position of the next append."""

    __slots__ = ("_fd", "end", "path")

    def __init__(self, path: str, mode: OpenMode) -> None:
        with _naming("open", path):
            permissions = _PERMISSIONS.get(mode, _USUAL_PERMISSIONS)
            self._fd, self.end = _open_file(path, _OPEN_FLAGS[mode], permissions)
        self.path = path

    def append(self, pieces: Sequence[Bytes]) -> None:
        total = sum(map(len, pieces))
        try:
            if total < VECTOR_PIECE_BYTES * len(pieces):
                self._write_all(b"".join(pieces), self.end)
            else:
                self._write_vector(pieces, self.end)
        except OSError as cause:
            raise DiskError("write", self.path, cause) from cause
        self.end += total

    def _write_all(self, data: Bytes, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        view = memoryview(data)
        while written < len(view):
            written += os.pwrite(self._fd, view[written:], position + written)

    def _write_vector(self, pieces: Sequence[Bytes], position: int) -> None:
        for first in range(0, len(pieces), VECTOR_PIECES_MAX):
            vector = pieces[first : first + VECTOR_PIECES_MAX]
            wanted = sum(len(piece) for piece in vector)
            written = os.pwritev(self._fd, vector, position)
            if written < wanted:  # rare: a signal, or the disk is about to be full
                self._write_all(b"".join(vector)[written:], position + written)
            position += wanted

    def pread(self, size: int, position: int) -> bytes:
        try:
            data = os.pread(self._fd, size, position)
            while len(data) < size and (more := os.pread(self._fd, size - len(data), position + len(data))):
                data += more
        except OSError as cause:
            raise DiskError("read", self.path, cause) from cause
        return data

    def pread_into(self, buffer: memoryview, position: int) -> int:
        filled = 0
        try:
            while filled < len(buffer) and (
                count := os.preadv(self._fd, [buffer[filled:]], position + filled)
            ):
                filled += count
        except OSError as cause:
            raise DiskError("read", self.path, cause) from cause
        return filled

    def pwrite(self, data: Bytes, position: int) -> None:
        with _naming("write", self.path):
            self._write_all(data, position)

    def map(self, size: int) -> RealMappedFile:
        with _naming("map", self.path):
            if not 0 < size <= os.fstat(self._fd).st_size:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return RealMappedFile(mmap.mmap(self._fd, size))

    def size(self) -> int:
        with _naming("stat", self.path):
            return os.fstat(self._fd).st_size

    def preallocate(self, size: int) -> None:
        with _naming("preallocate", self.path):
            if size > 0:
                os.posix_fallocate(self._fd, 0, size)

    def truncate(self, size: int) -> None:
        with _naming("truncate", self.path):
            os.ftruncate(self._fd, size)
        self.end = size

    def fdatasync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as cause:
            raise DiskError("fdatasync", self.path, cause) from cause

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with _naming("close", self.path):
                os.close(fd)


class RealMappedFile:
    """mmap(2), shared and writable."""

    __slots__ = ("_memory", "size")

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self.size = len(memory)

    def write(self, position: int, data: Bytes) -> None:
        check_within(position, len(data), self.size)
        self._memory[position : position + len(data)] = data

    def close(self) -> None:
        self._memory.close()


def check_within(position: int, count: int, size: int) -> None:
    """A write beside a mapping is a mistake of the program, not of the disk."""
    if not 0 <= position <= position + count <= size:
        raise ValueError(f"{count} bytes at {position} do not lie within {size}")


class RealLock:
    """flock(2) on an open file: it conflicts between processes and within one, and ends with the process."""

    def __init__(self, path: str) -> None:
        with _naming("open", path):
            self._fd, _ = _open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            self._lock()
        except OSError as cause:
            holder = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            if cause.errno not in (errno.EAGAIN, errno.EACCES):
                raise DiskError("lock", path, cause) from cause
            raise LogLocked(
                f"already open by process {holder or 'unknown'}",
                path=path,
                hint="only one process may write a log",
            ) from None
        # For people and the error above; a stale number means nothing, the flock is the lock.
        with suppress(OSError):
            os.pwrite(self._fd, b"%-20d" % os.getpid(), 0)

    def _lock(self) -> None:
        """Whoever asks for a lock's holder has the lock for a moment, and that is no reason to give up."""
        for _ in range(LOCK_TRIES - 1):
            with suppress(BlockingIOError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(LOCK_PAUSE_SECONDS)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _entry(item: os.DirEntry[str]) -> Entry | None:
    """None for a file that was unlinked since its directory was read."""
    try:
        return Entry(item.name, 0 if item.is_dir() else item.stat().st_size, item.is_dir())
    except OSError as cause:
        if item.is_symlink():
            return Entry(item.name, 0, False)  # it leads nowhere, in a circle, or where nobody may look
        if isinstance(cause, FileNotFoundError):
            return None
        raise


class RealDisk:
    """The file system of this machine."""

    def open(self, path: str, mode: OpenMode) -> RealFile:
        return RealFile(path, mode)

    def list(self, path: str) -> list[Entry]:
        with _naming("list", path), os.scandir(path) as found:
            return sorted(entry for item in found if (entry := _entry(item)) is not None)

    def names(self, path: str) -> Sequence[str]:
        with _naming("list", path):
            return os.listdir(path)

    def size(self, path: str) -> int | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as cause:
            raise DiskError("stat", path, cause) from cause
        return None if stat.S_ISDIR(status.st_mode) else status.st_size

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return 0
        except OSError as cause:
            if os.path.islink(path):
                return 0
            raise DiskError("stat", path, cause) from cause

    def identity(self, path: str) -> str:
        with _naming("stat", path):
            status = os.stat(path)
        return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"

    def unchanged_since(self, directory: str, path: str) -> bool:
        # The time of a change to the directory cannot be set, as programs that copy do with the other one.
        # Time stamps are coarse: the same one for both tells nothing.
        try:
            return os.stat(directory).st_ctime_ns < os.stat(path).st_mtime_ns
        except OSError:
            return False

    def space(self, path: str) -> Space:
        with _naming("stat", path):
            found = os.statvfs(path)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def make_directory(self, path: str) -> None:
        missing = []
        here = os.path.abspath(path)
        while not os.path.lexists(here):
            missing.append(here)
            here = os.path.dirname(here)
        for directory in reversed(missing):
            with _naming("mkdir", directory), suppress(FileExistsError):  # another process was faster
                os.mkdir(directory, 0o755)
            self.sync_directory(os.path.dirname(directory))
        if not os.path.isdir(path):
            refused = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            raise DiskError("mkdir", path, refused)

    def sync_directory(self, path: str) -> None:
        with _naming("fsync", path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def rename(self, source: str, target: str) -> None:
        with _naming(f"rename to {target}", source):
            os.replace(source, target)

    def unlink(self, path: str) -> None:
        with _naming("unlink", path):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        with _naming("rmdir", path):
            os.rmdir(path)

    def resolve(self, path: str) -> str:
        return os.path.realpath(path)

    def lock(self, path: str) -> RealLock:
        return RealLock(path)

    def lock_holder(self, path: str) -> str | None:
        try:
            with _naming("open", path):
                fd, _ = _open_file(path, os.O_RDONLY)
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        try:
            # Shared, so that any number may ask at once; whoever locks in this moment tries again.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as cause:
            if cause.errno not in (errno.EAGAIN, errno.EACCES):
                raise DiskError("lock", path, cause) from cause
            return os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
        finally:
            os.close(fd)
        return None


def parent(path: str) -> str:
    """The directory that a path lies in."""
    return str(PurePosixPath(path).parent)


def read_file(disk: Disk, path: str, limit_bytes: int) -> bytes:
    """A whole small file; one that is larger than the limit is cut there, never read into memory."""
    file = disk.open(path, "read")
    try:
        return file.pread(min(file.size(), limit_bytes), 0)
    finally:
        file.close()


class Replacement(NamedTuple):
    """New content for `path`, written under the name `temporary` first."""

    temporary: str
    path: str
    pieces: Sequence[Bytes]


def replace_files(disk: Disk, replacements: Sequence[Replacement], mode: OpenMode = "create") -> None:
    """Put new content in the place of each path, atomically: on return it survives a power cut.

    The order is the promise: temporary → write → fsync → rename → fsync of the target directories, then
    of the source directories. A crash leaves the old file or the new one, and at worst a temporary.
    """
    for temporary, _, pieces in replacements:
        if disk.exists(temporary):
            disk.unlink(temporary)
        file = disk.open(temporary, mode)
        try:
            file.append(pieces)
            file.fdatasync()
        finally:
            file.close()
    for temporary, path, _ in replacements:
        disk.rename(temporary, path)
    targets = dict.fromkeys(parent(path) for _, path, _ in replacements)
    sources = dict.fromkeys(parent(temporary) for temporary, _, _ in replacements)
    for directory in targets | sources:
        disk.sync_directory(directory)


def replace_file(
    disk: Disk, temporary: str, path: str, pieces: Sequence[Bytes], mode: OpenMode = "create"
) -> None:
    """`replace_files` for one file."""
    replace_files(disk, [Replacement(temporary, path, pieces)], mode)


def copy_file(disk: Disk, source: str, target: str, start: int = 0, end: int | None = None) -> None:
    """Copy bytes start..end of a file into a new one, durably, in bounded memory."""
    origin = disk.open(source, "read")
    try:
        copy = disk.open(target, "create")
        try:
            position, end = start, origin.size() if end is None else end
            while position < end and (chunk := origin.pread(min(COPY_CHUNK_BYTES, end - position), position)):
                copy.append([chunk])
                position += len(chunk)
            copy.fdatasync()
        finally:
            copy.close()
    finally:
        origin.close()
    disk.sync_directory(parent(target))


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a directory and all that is in it; on return that survives a power cut.

    A crash leaves a part of it, and doing it again removes the rest. Links are removed, not followed.
    """
    here = disk.resolve(path)
    for entry in disk.list(path):
        child = f"{here}/{entry.name}"
        if entry.is_directory and disk.resolve(child) == child:
            remove_tree(disk, child)
        else:
            disk.unlink(child)
    disk.remove_directory(here)
    disk.sync_directory(parent(here))
