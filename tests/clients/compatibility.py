"""The command `python -m tests.clients.compatibility`: write the tables of docs/compatibility.md.

The table of clients comes from a run of the tests in this directory and is written only if all of them
passed, with Java. The table of APIs comes from the gateway's dispatch table, the table of differences from
what the comparison with a real Kafka allows; `apis` writes these two alone. What stands outside of the marks
in the document is written by hand.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from barbicel.gateway.kafka.api import Api
from barbicel.gateway.kafka.table import TABLE
from tests.clients.features import FEATURES, JAVA_CHECKS, READING
from tests.clients.kafka_apis import KAFKA_APIS, KafkaApi
from tests.differential.differences import DIFFERENCES
from tests.rig.skipping import REQUIRED

__all__ = ["DOCUMENT", "Recorder", "api_table", "block", "client_table", "difference_table", "replaced"]

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "compatibility.md"
PASSED, NO_CALL, NOT_TRIED = "yes", "no call", ""
ABSENT = "absent"

# Column → row → what is in the cell.
Cells: TypeAlias = Mapping[str, Mapping[str, str]]


class Recorder:
    """Takes part in a run of pytest and keeps what the reports tell."""

    def __init__(self) -> None:
        self._cells: dict[str, dict[str, str]] = defaultdict(dict)
        self._java_checks: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or report.failed:
            return
        told = [(name, str(value)) for name, value in report.user_properties]
        columns = [value for name, value in told if name == "column"]
        for column in columns:
            for name, value in told:
                if name == "row":
                    self._cells[column][value] = PASSED if report.passed else NO_CALL
                elif name == "check":
                    self._java_checks[column].add(value)

    def cells(self) -> Cells:
        """A row that Java's checks prove has passed when all of them have."""
        cells = {column: dict(rows) for column, rows in self._cells.items()}
        for column, passed in self._java_checks.items():
            for row, checks in JAVA_CHECKS.items():
                if passed.issuperset(checks):
                    cells.setdefault(column, {})[row] = PASSED
        return cells


def client_table(cells: Cells) -> str:
    """A column for each client, a row for each feature, in sections."""
    columns = sorted(cells, key=str.lower)
    sections = {**FEATURES, READING: sorted({row for rows in cells.values() for row in rows} - _named())}
    lines = [_line(["", *columns]), _line(["---"] * (len(columns) + 1))]
    for section, rows in sections.items():
        lines.append(_line([f"**{section}**", *[""] * len(columns)]))
        lines += [_line([row, *(cells[column].get(row, NOT_TRIED) for column in columns)]) for row in rows]
    return "\n".join(lines)


def _named() -> set[str]:
    return {row for rows in FEATURES.values() for row in rows}


def api_table() -> str:
    """Every API of Kafka, and the versions of it that are served here."""
    lines = [_line(["Key", "API", "Kafka 4.3", "Barbicel"]), _line(["---:", "---", "---", "---"])]
    for key in sorted(KAFKA_APIS.keys() | TABLE.keys()):
        theirs, ours = KAFKA_APIS.get(key), TABLE.get(key)
        name = ours.name if ours is not None else KAFKA_APIS[key].name
        versions = [_versions(api) for api in (theirs, ours)]
        lines.append(_line([str(key), name, *versions]))
    return "\n".join(lines)


def difference_table() -> str:
    """Where an answer is not Kafka's on purpose, each difference once."""
    lines = [_line(["API", "here", "why"]), _line(["---"] * 3)]
    rows = dict.fromkeys((known.api, known.what, known.why) for known in DIFFERENCES)
    return "\n".join([*lines, *(_line([cell.replace("|", "\\|") for cell in row]) for row in rows)])


def _versions(api: KafkaApi | Api | None) -> str:
    if api is None:
        return ABSENT
    first, last = api.first_version, api.last_version
    return str(first) if first == last else f"{first} to {last}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def block(document: str, name: str) -> str:
    """What stands between the marks of a table."""
    found = _marked(name).search(document)
    assert found is not None, f"the document has no marks for {name}"
    return found[2].strip("\n")


def replaced(document: str, name: str, table: str) -> str:
    block(document, name)
    return _marked(name).sub(lambda found: f"{found[1]}\n{table}\n{found[3]}", document)


def _marked(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: begin -->)(.*?)(<!-- {name}: end -->)", re.S)


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    document = replaced(DOCUMENT.read_text(encoding="utf-8"), "apis", api_table())
    document = replaced(document, "differences", difference_table())
    if "apis" not in arguments:
        # A table without Java would look as if Java had never been tried.
        os.environ[REQUIRED] = "yes"
        recorder = Recorder()
        directory = Path(__file__).parent
        # That one looks at the document, which is to be written first.
        left_out = f"--ignore={directory / 'test_compatibility.py'}"
        outcome = pytest.main(["-p", "no:cacheprovider", left_out, str(directory)], [recorder])
        if outcome != pytest.ExitCode.OK:
            return int(outcome)
        document = replaced(document, "clients", client_table(recorder.cells()))
    DOCUMENT.write_text(document, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
