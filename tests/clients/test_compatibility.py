"""docs/compatibility.md says what is true, and the run that it comes from cannot leave anything out."""

from __future__ import annotations

import pytest

from barbicel.gateway.kafka.table import TABLE
from tests.clients.compatibility import (
    DOCUMENT,
    Recorder,
    api_table,
    block,
    client_table,
    difference_table,
    replaced,
)
from tests.clients.features import CODECS, FEATURES, HEADERS, JAVA_CHECKS, NULLS, codec_feature
from tests.clients.kafka_apis import KAFKA_APIS

MARKED = "before\n<!-- apis: begin -->\nold\n<!-- apis: end -->\nafter"


def report(outcome: str, *properties: tuple[str, str]) -> pytest.TestReport:
    assert outcome in ("passed", "failed", "skipped")
    return pytest.TestReport(
        nodeid="test",
        location=("test.py", 1, "test"),
        keywords={},
        outcome=outcome,  # type: ignore[arg-type]  # it is one of the three
        longrepr=None,
        when="call",
        user_properties=list(properties),
    )


def test_the_documents_table_of_apis_is_the_dispatch_table() -> None:
    """If this fails, run `python -m tests.clients.compatibility apis`."""
    assert block(DOCUMENT.read_text(encoding="utf-8"), "apis") == api_table()


def test_the_documents_table_of_differences_is_what_the_comparison_allows() -> None:
    """If this fails, run `python -m tests.clients.compatibility apis`."""
    assert block(DOCUMENT.read_text(encoding="utf-8"), "differences") == difference_table()


def test_the_documents_table_of_clients_has_every_row() -> None:
    table = block(DOCUMENT.read_text(encoding="utf-8"), "clients")
    for rows in FEATURES.values():
        for row in rows:
            assert f"| {row} |" in table


def test_no_version_is_served_that_kafka_does_not_have() -> None:
    for key, api in TABLE.items():
        assert KAFKA_APIS[key].name == api.name
        assert KAFKA_APIS[key].first_version <= api.first_version
        assert api.last_version <= KAFKA_APIS[key].last_version


def test_a_row_is_as_the_test_ended() -> None:
    recorder = Recorder()
    recorder.pytest_runtest_logreport(report("passed", ("column", "a"), ("row", NULLS)))
    recorder.pytest_runtest_logreport(report("skipped", ("column", "a"), ("row", HEADERS)))
    recorder.pytest_runtest_logreport(report("failed", ("column", "b"), ("row", NULLS)))
    assert recorder.cells() == {"a": {NULLS: "yes", HEADERS: "no call"}}


def test_a_row_of_java_needs_all_its_checks() -> None:
    recorder = Recorder()
    recorder.pytest_runtest_logreport(report("passed", ("column", "Java"), ("check", "acks 0")))
    recorder.pytest_runtest_logreport(report("passed", ("column", "Java"), ("check", "codec gzip")))
    assert recorder.cells() == {"Java": {codec_feature("gzip"): "yes"}}


def test_every_row_of_java_is_a_row() -> None:
    assert set(JAVA_CHECKS) <= {row for rows in FEATURES.values() for row in rows}


def test_the_table_has_a_cell_for_every_client_and_row() -> None:
    table = client_table({"b 2": {codec_feature(codec): "yes" for codec in CODECS}, "A 1": {"from b": "yes"}})
    lines = table.splitlines()
    assert lines[0] == "|  | A 1 | b 2 |"
    assert f"| {codec_feature('zstd')} |  | yes |" in lines
    assert lines[-1] == "| from b | yes |  |"
    assert {line.count("|") for line in lines} == {4}


def test_only_what_is_marked_is_replaced() -> None:
    assert replaced(MARKED, "apis", "new") == MARKED.replace("old", "new")
    with pytest.raises(AssertionError, match="no marks for clients"):
        replaced(MARKED, "clients", "new")
