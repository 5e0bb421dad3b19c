"""Text that is safe to show."""

from __future__ import annotations

__all__ = ["plain"]


def plain(text: str) -> str:
    """The text in printable characters: a file's name may hold anything."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
