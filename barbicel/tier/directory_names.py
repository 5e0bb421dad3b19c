"""Keys as paths of files, and back: a bijection, in which ordinary keys are paths as they are.

    a/b/segment-1.kfs   →  a/b/segment-1.kfs

A name that ends like a file's (`.kfs`) stands for an object as it is, any other for a directory. Where a key
has it the other way round, the name is marked, so that the objects `a` and `a/b` can both be there:

    %f behind the last name of a key, if it does not look like a file's
    %d behind any other name, if it does
    %+ behind a part of a name that is too long for a file system; the rest follows one directory down
    %25 for a percent sign, %2E for a dot that a name begins with: such names are the store's own
"""

from __future__ import annotations

import re

__all__ = ["OWN_DIRECTORY", "key_of", "path_of"]

OWN_DIRECTORY = ".barbicel"
# File systems allow 255; the mark and the escape of a last character go on top.
PART_BYTES = 240
OBJECT, DIRECTORY, CONTINUED = "%f", "%d", "%+"
_DOT = re.compile(r"^\.")
_LIKE_A_FILE = re.compile(r".*\.[a-z0-9]{1,8}", re.DOTALL)


def path_of(key: str) -> str:
    """The path of an object's file, relative to the store."""
    *directories, name = key.split("/")
    return "/".join([*(_write(one, is_object=False) for one in directories), _write(name, is_object=True)])


def _write(name: str, *, is_object: bool) -> str:
    *parts, last = [_DOT.sub("%2E", part) for part in _parts(name.replace("%", "%25"))]
    mark = "" if bool(_LIKE_A_FILE.fullmatch(last)) == is_object else OBJECT if is_object else DIRECTORY
    return "/".join([*(part + CONTINUED for part in parts), last + mark])


def _parts(name: str) -> list[str]:
    """Cut at characters, never inside of an escape: a part ends right before the one that does not fit."""
    parts, part, size = [], "", 0
    for token in re.findall(r"%..|.", name, re.DOTALL):
        token_bytes = len(token.encode())
        if size + token_bytes > PART_BYTES:
            parts.append(part)
            part, size = "", 0
        part += token
        size += token_bytes
    return [*parts, part]


def key_of(path: str) -> str | None:
    """The key of the object in a file, None for a file that is no object's."""
    *above, name = path.split("/")
    texts = [_read(part, is_object=False) for part in above] + [_read(name, is_object=True)]
    known = [text for text in texts if text is not None]
    key = "".join(known).removesuffix("/")
    return key if len(known) == len(texts) and path_of(key) == path else None


def _read(part: str, *, is_object: bool) -> str | None:
    """A part of a path as a part of a key, with the slash that follows it."""
    if part.startswith("."):
        return None
    is_continued = part.endswith(CONTINUED)
    text = part.removesuffix(CONTINUED).removesuffix(OBJECT if is_object else DIRECTORY)
    text = text.replace("%2E", ".").replace("%25", "%")
    return text if is_continued or is_object else f"{text}/"
