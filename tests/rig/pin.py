"""The command `python -m tests.rig.pin`: note the checksums of the jars that the poms name now."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.rig.jars import JARS, JAVA, checksums, copy_jars

__all__ = ["pin"]


def pin(name: str) -> None:
    """Write `java/pom-<name>.sha256` anew."""
    with tempfile.TemporaryDirectory() as directory:
        copy_jars(name, Path(directory))
        (JAVA / f"pom-{name}.sha256").write_text(checksums(Path(directory)), encoding="utf-8")


if __name__ == "__main__":
    for name in JARS:
        pin(name)
