"""A gateway that does not come back is waited for once, and told of in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.errors import (
    KafkaConnectionError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
)

from barbicel.cli import pipeline_import_journals as verb
from barbicel.cli.import_journals import TargetOptions
from barbicel.disk import RealDisk
from barbicel.gateway.client.connecting import NoServer, ServerRefused
from barbicel.gateway.migration import patience
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.gateway_queue import refusing
from barbicel.gateway.migration.importing import ImportRules, Outcome
from barbicel.gateway.migration.target import Target, TargetGone, TargetRefused
from tests.gateway.migration.support import disk_with, run_import, run_verify
from tests.golden.kestrel.writer import addx
from tests.pipeline.journals import write_journals

NOT_TRIED = "not tried: the gateway is gone"
QUEUES = {name: [addx(b"item", 1_600_000_000_000)] for name in ("a", "b", "c")}


def test_the_other_queues_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def find(target: DirectoryTarget, topic: str) -> None:
        asked.append(topic)
        raise TargetGone("nobody")

    disk = disk_with(QUEUES)
    run_import(disk)
    monkeypatch.setattr(DirectoryTarget, "find", find)
    monkeypatch.setattr(DirectoryTarget, "completed", lambda target: [])
    outcomes = run_import(disk)
    assert {one.outcome for one in outcomes} == {Outcome.FAILED}
    assert [one.problem for one in outcomes] == ["nobody", NOT_TRIED, NOT_TRIED]
    assert [one.problem for one in run_verify(disk)] == ["nobody", NOT_TRIED, NOT_TRIED]
    assert asked == ["a", "a"]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            NodeNotReadyError(7),
            TargetGone,
            r"^no Kafka server answers \(NodeNotReadyError: 7; does it run\?\)$",
        ),
        (KafkaConnectionError("lost"), TargetGone, "^no Kafka server answers"),
        (ConnectionResetError("reset"), TargetGone, "^no Kafka server answers"),
        (NoServer("nobody", path="here"), TargetGone, "^here: nobody$"),
        (ServerRefused("no", path="here"), TargetRefused, "^here: no$"),
        (TargetRefused("no"), TargetRefused, "^no$"),
        # kafka-python says the kind of an error with its text.
        (TopicAuthorizationFailedError("no"), TargetRefused, r"^q: \[Error 29\] \w+: no$"),
    ],
)
def test_what_is_said_of_it(error: Exception, kind: type[TargetRefused], text: str) -> None:
    with pytest.raises(TargetRefused, match=text) as caught, refusing("q"):
        raise error
    assert type(caught.value) is kind


def test_a_task_waits_for_a_gateway_that_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = iter((TargetGone("nobody"), TargetGone("nobody"), None))

    def opened(options: TargetOptions, *, may_create: bool) -> Target:
        if (error := next(tries)) is not None:
            raise error
        return DirectoryTarget.open(RealDisk(), str(tmp_path / "data"))

    monkeypatch.setattr(verb, "opened_target", opened)
    monkeypatch.setattr(patience, "RETRY_PAUSE_S", 0.0)
    assert task(tmp_path)("queue-0").outcome is Outcome.IMPORTED


def test_a_task_that_is_refused_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(options: TargetOptions, *, may_create: bool) -> Target:
        raise TargetRefused("not you")

    monkeypatch.setattr(verb, "opened_target", opened)
    found = task(tmp_path)("queue-0")
    assert (found.master, found.outcome, found.problem) == ("queue-0", Outcome.FAILED, "not you")


def task(directory: Path) -> verb._GatewayImport:
    journals = write_journals(directory / "journals")
    return verb._GatewayImport(str(journals), TargetOptions(), ImportRules())
