"""Paths and the nodes that they lead to. Raises the OSErrors of Linux and knows no faults."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterator

from tests.support.inodes import Directory, Inode, Node

__all__ = ["Tree", "os_error"]


def os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class Tree:
    """A directory that is the root of all paths, of relative ones too."""

    def __init__(self, root: Directory | None = None) -> None:
        self.root = root or Directory()

    def inode(self, path: str) -> Inode:
        node = self.node(path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR)
        return node

    def directory(self, path: str) -> Directory:
        node = self.node(path)
        if isinstance(node, Inode):
            raise os_error(errno.ENOTDIR)
        return node

    def node(self, path: str) -> Node:
        return _descend(self.root, _names(path))

    def parent(self, path: str) -> tuple[Directory, str]:
        """The directory that has, or would have, the path's last name, and that name."""
        names = _names(path)
        if not names:
            raise os_error(errno.EBUSY)  # the root has no name that could change
        directory = _descend(self.root, names[:-1])
        if isinstance(directory, Inode):
            raise os_error(errno.ENOTDIR)
        return directory, names[-1]

    def make_directories(self, path: str) -> Directory:
        """The directory at a path, durably made with its parents where they are missing."""
        directory = self.root
        for name in _names(path):
            node = directory.entries.get(name)
            if node is None:
                node = Directory()
                directory.link_durably(name, node)
            elif isinstance(node, Inode):
                raise os_error(errno.ENOTDIR)
            directory = node
        return directory

    def rename(self, source: str, target: str) -> None:
        """One change in a directory; between two, one in each, and a crash may keep either."""
        from_directory, from_name = self.parent(source)
        to_directory, to_name = self.parent(target)
        node = _descend(from_directory, [from_name])
        replaced = to_directory.entries.get(to_name)
        if node is replaced:
            return  # rename(2): two names of one file stay as they are
        _check_replaceable(node, replaced)
        if from_directory is to_directory:
            from_directory.change({from_name: None, to_name: node})
        elif isinstance(node, Directory):
            # Linux can. Here a crash that keeps half of it could leave a directory inside itself.
            raise os_error(errno.EXDEV)
        else:
            to_directory.change({to_name: node})
            from_directory.change({from_name: None})

    def files(self) -> Iterator[tuple[str, Inode]]:
        """Every file by its absolute path."""
        return _walk(self.root, "/")


def _names(path: str) -> list[str]:
    if not path:
        raise os_error(errno.ENOENT)
    return [name for name in posixpath.normpath(f"/{path}").split("/") if name]


def _descend(node: Node, names: list[str]) -> Node:
    for name in names:
        if isinstance(node, Inode):
            raise os_error(errno.ENOTDIR)
        child = node.entries.get(name)
        if child is None:
            raise os_error(errno.ENOENT)
        node = child
    return node


def _check_replaceable(node: Node, replaced: Node | None) -> None:
    if isinstance(node, Directory):
        if isinstance(replaced, Inode):
            raise os_error(errno.ENOTDIR)
        if replaced is not None and replaced.entries:
            raise os_error(errno.ENOTEMPTY)
    elif isinstance(replaced, Directory):
        raise os_error(errno.EISDIR)


def _walk(directory: Directory, path: str) -> Iterator[tuple[str, Inode]]:
    for name, node in directory.entries.items():
        if isinstance(node, Directory):
            yield from _walk(node, f"{path}{name}/")
        else:
            yield f"{path}{name}", node
