"""A log on the real disk to be damaged, and a way to run the command on it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner, Result

from barbicel.cli.main import cli
from barbicel.keratin import Log, LogSettings, NewRecord

# Four records of 50 bytes a segment; the last segment has two.
SETTINGS = LogSettings(segment_max_bytes=68 + 4 * 50, index_stride_bytes=100)
RECORD_BYTES = 50
RECORDS = 18
ACTIVE = 16


def payload(offset: int) -> bytes:
    return b"payload %06d" % offset


def build(path: Path, records: int = RECORDS) -> Path:
    """A log that was closed in good order. Its segments begin at 0, 4, 8, 12 and 16."""
    with Log.open(str(path), settings=SETTINGS) as log:
        log.append([NewRecord(payload(n), timestamp_ms=1_700_000_000_000 + n) for n in range(records)])
    return path


def segment(log: Path, base_offset: int, suffix: str = "log") -> Path:
    return log / "segments" / f"{base_offset:020d}.{suffix}"


def position(number: int) -> int:
    """Where the record with this number in its segment begins."""
    return 68 + number * RECORD_BYTES


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


def tear(log: Path) -> None:
    """As a crash in the middle of an append leaves the active segment."""
    with segment(log, ACTIVE).open("ab") as file:
        file.write(b"KR\0\1 and no more")


def snapshot(directory: Path) -> dict[str, bytes | None]:
    """Every name below a directory, and the bytes of those that are files."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def run(*arguments: str | Path) -> Result:
    """As with an output that is no terminal."""
    result = CliRunner().invoke(cli, [str(item) for item in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert all(line == line.rstrip() for line in result.stdout.split("\n"))
    return result


def run_on_terminal(*arguments: str | Path) -> Result:
    """As on a terminal of 80 columns. All but the first line, which may be a long path, must fit it."""
    with patch("barbicel.cli.page.terminal_width", return_value=80):
        result = run(*arguments)
    assert max(map(len, result.stdout.splitlines()[1:]), default=0) <= 80
    return result


def environment() -> dict[str, str]:
    """For a process that finds what this one finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"}


def words(result: Result) -> str:
    """The output without its line breaks."""
    return " ".join(result.stdout.split())


def document(result: Result) -> Any:
    """The one JSON document that is all of the output."""
    return json.loads(result.stdout)


def lost(*ranges: tuple[int, int]) -> list[dict[str, int]]:
    """Ranges, ends exclusive, as they stand in a document."""
    return [{"first_offset": first, "end_offset": end} for first, end in ranges]
