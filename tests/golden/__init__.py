"""Golden bytes: files written from the specifications, never by the encoders under test.

A `.hex` file holds one field a line. Everything from `#` to the end of a line is a comment; blanks
between digits are ignored.
"""

from pathlib import Path

__all__ = ["load", "names"]

_ROOT = Path(__file__).parent


def load(name: str) -> bytes:
    """The bytes of tests/golden/<name>.hex, for example load("keratin/log-plain")."""
    text = (_ROOT / f"{name}.hex").read_text(encoding="utf-8")
    return b"".join(bytes.fromhex(line.partition("#")[0]) for line in text.splitlines())


def names(directory: str) -> list[str]:
    """Every golden in tests/golden/<directory>, as load() takes them."""
    return sorted(f"{directory}/{path.stem}" for path in (_ROOT / directory).glob("*.hex"))
