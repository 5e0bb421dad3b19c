"""Into a running gateway each item comes once, whoever sends it, how often and how late; and what else the
gateway's own users may do meanwhile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError

from barbicel.codecs.kafka.new_batch import build_batch
from barbicel.disk import RealDisk
from barbicel.gateway.migration import gateway_queue, gateway_target, marks
from barbicel.gateway.migration.gateway_queue import GatewayQueue
from barbicel.gateway.migration.gateway_target import GatewayTarget
from barbicel.gateway.migration.importing import ImportRules, Outcome, import_family
from barbicel.gateway.migration.marks import cut_batches
from barbicel.gateway.migration.records import Audiences, new_records
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.target import TargetRefused
from barbicel.gateway.migration.verify import Verdict
from barbicel.gateway.migration.watch import Quiet
from tests.gateway.migration.support import run_import as import_into_directory
from tests.gateway.migration.test_gateway_import import (
    drain,
    items,
    open_target,
    run_import,
    verify,
    write,
)
from tests.golden.kestrel.writer import addx
from tests.support.gateway import Gateway, running_gateway

FAR_MS = 4_000_000_000_000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


def put(gateway: Gateway, queue: str, *data: bytes) -> None:
    with socket.create_connection((gateway.host, gateway.kestrel_port), 30) as client:
        answers = client.makefile("rb")
        for one in data:
            client.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (queue.encode(), len(one), one))
            assert answers.readline() == b"STORED\r\n"


def take(gateway: Gateway, queue: str, count: int) -> None:
    with socket.create_connection((gateway.host, gateway.kestrel_port), 30) as client:
        answers = client.makefile("rb")
        for _ in range(count):
            client.sendall(f"get {queue}\r\n".encode())
            assert answers.readline().startswith(b"VALUE")
            answers.readline()
            assert answers.readline() == b"END\r\n"


def first_request(gateway: Gateway, source: str) -> bytes:
    """Begin an import, and what its first request would send, as a run that is killed before the answer."""
    journals = open_source(RealDisk(), source)
    (family,) = journals.families
    with open_target(gateway) as target, target.make([line.name for line in family.lines]) as queue:
        begun = queue.begin(family.import_id)
        groups = [line.name.group for line in family.lines]
        lines = [journals.replay(line) for line in family.lines]
        records = new_records(lines, Audiences(groups, queue.groups), 0, lambda skipped: None)
        numbers = begun.numbers(0)
        return build_batch(
            next(iter(cut_batches(records, family.import_id))),
            producer_id=numbers.producer_id,
            producer_epoch=numbers.producer_epoch,
            base_sequence=numbers.base_sequence,
        )


@pytest.mark.parametrize("sent", ["before", "behind", "both"])
def test_a_request_of_a_killed_import_is_stored_once(gateway: Gateway, tmp_path: Path, sent: str) -> None:
    queue = f"late-{sent}"
    source = write(tmp_path, {queue: items(1, 2, 3)})
    late = first_request(gateway, source)
    with open_target(gateway) as target:
        if sent in ("before", "both"):
            assert target.appends.append(queue, 0, late).error_code == 0
        assert [one.outcome for one in run_import(gateway, source)] == [Outcome.IMPORTED]
        if sent in ("behind", "both"):
            target.appends.append(queue, 0, late)
    (verdict,) = verify(gateway, source)
    assert verdict.verdict is Verdict.COMPLETE, verdict
    assert drain(gateway, queue) == [b" 1", b" 2", b" 3"]


def test_a_queue_that_is_deleted_while_its_import_is_under_way_begins_anew(
    gateway: Gateway, tmp_path: Path
) -> None:
    """As the documents say. What the first try has stored must not be taken for what the new queue has."""
    source = write(tmp_path, {"anew": items(1, 2, 3)})
    first = first_request(gateway, source)
    with open_target(gateway) as target:
        assert target.appends.append("anew", 0, first).error_code == 0
        with socket.create_connection((gateway.host, gateway.kestrel_port), 30) as client:
            client.sendall(b"delete anew\r\n")
            assert client.makefile("rb").readline() == b"DELETED\r\n"
        assert target.find("anew") is None
    (outcome,) = run_import(gateway, source)
    assert (outcome.outcome, outcome.records_before) == (Outcome.IMPORTED, 0)
    assert [one.verdict for one in verify(gateway, source)] == [Verdict.COMPLETE]
    assert drain(gateway, "anew") == [b" 1", b" 2", b" 3"]


def test_two_imports_at_once_store_each_item_once(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MAX_BATCH_RECORDS", 10)
    source = write(tmp_path, {"raced": items(*range(500))})
    both = threading.Barrier(2)
    outcomes: list[Outcome] = []

    def run() -> None:
        journals = open_source(RealDisk(), source)
        with open_target(gateway) as target:
            completed = target.completed()
            both.wait(30)
            result = import_family(journals, journals.families[0], target, completed, ImportRules(), Quiet())
            outcomes.append(result.outcome)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Outcome.IMPORTED in outcomes
    assert drain(gateway, "raced") == [b" %d" % number for number in range(500)]


def test_an_import_goes_on_in_a_directory_and_back_in_the_gateway(tmp_path: Path) -> None:
    """Three runs, of which each is killed in its own target: their numbers go on."""
    (tmp_path / "journals").mkdir()
    source = write(tmp_path / "journals", {"q": items(*range(30))})
    data = str(tmp_path / "data")

    class Killed(Exception):
        pass

    def killed_after(batches: int) -> Any:
        left = [batches]

        def watch_append(queue: Any, batch: Any, numbers: Any = None) -> None:
            if numbers is not None:
                if not left[0]:
                    queue.settle()
                    raise Killed
                left[0] -= 1
                original[type(queue)](queue, batch, numbers)
            else:
                original[type(queue)](queue, batch)

        return watch_append

    from barbicel.gateway.migration.directory_queue import DirectoryQueue

    original = {kind: kind.append for kind in (GatewayQueue, DirectoryQueue)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "MAX_BATCH_RECORDS", 5)
        with running_gateway(tmp_path) as gateway:
            patch.setattr(GatewayQueue, "append", killed_after(2))
            with pytest.raises(Killed):
                run_import(gateway, source)
        patch.setattr(DirectoryQueue, "append", killed_after(2))
        with pytest.raises(Killed):
            import_into_directory(RealDisk(), source=source, data=data)
        patch.setattr(GatewayQueue, "append", original[GatewayQueue])
        with running_gateway(tmp_path) as gateway:
            (outcome,) = run_import(gateway, source)
            assert (outcome.outcome, outcome.records_before) == (Outcome.IMPORTED, 20), outcome
            (verdict,) = verify(gateway, source)
            assert verdict.verdict is Verdict.COMPLETE, verdict
            assert drain(gateway, "q") == [b" %d" % number for number in range(30)]


def test_times_that_kafka_does_not_like_come_over(gateway: Gateway, tmp_path: Path) -> None:
    source = write(tmp_path, {"times": [addx(b"never", -5), addx(b"far", FAR_MS), addx(b"past", 7, -7)]})
    assert [one.outcome for one in run_import(gateway, source)] == [Outcome.IMPORTED]
    (verdict,) = verify(gateway, source)
    assert verdict.verdict is Verdict.COMPLETE, verdict
    assert drain(gateway, "times") == [b"never", b"far"]


def test_what_others_put_does_not_stand_in_for_what_was_read(gateway: Gateway, tmp_path: Path) -> None:
    source = write(tmp_path, {"busy": items(1, 2, 3)})
    put(gateway, "busy", b"earlier")
    run_import(gateway, source)
    (verdict,) = verify(gateway, source)
    assert verdict.verdict is Verdict.COMPLETE, verdict
    take(gateway, "busy", 2)
    put(gateway, "busy", b"later", b"later", b"later")
    (verdict,) = verify(gateway, source)
    assert (verdict.verdict, verdict.lines[0].read_items) == (Verdict.READ, 1)


def test_an_item_that_somebody_has_open_is_not_unread(gateway: Gateway, tmp_path: Path) -> None:
    source = write(tmp_path, {"held": items(1, 2, 3)})
    run_import(gateway, source)
    with socket.create_connection((gateway.host, gateway.kestrel_port), 30) as client:
        client.sendall(b"get held/open\r\n")
        assert client.makefile("rb").readline().startswith(b"VALUE held")
        put(gateway, "held", b"later")
        (verdict,) = verify(gateway, source)
    assert (verdict.verdict, verdict.lines[0].read_items) == (Verdict.READ, 1)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "retention.ms=604800000"),
        ({"retention.ms": "-1", "retention.bytes": "5"}, "retention.bytes=5"),
        ({"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}, "its own time"),
    ],
)
def test_a_topic_that_loses_items_is_refused_and_the_others_come_over(
    gateway: Gateway, tmp_path: Path, settings: dict[str, str], problem: str
) -> None:
    name = f"kafka-{len(problem)}"
    source = write(tmp_path, {name: items(1), f"{name}-other": items(2)})
    with open_target(gateway) as target:
        target.admin.create_topics([NewTopic(name, 1, 1, topic_configs=settings)])
    refused, other = run_import(gateway, source)
    assert refused.outcome is Outcome.FAILED
    assert refused.problem is not None
    assert problem in refused.problem
    assert other.outcome is Outcome.IMPORTED


def test_a_small_limit_of_an_existing_topic_is_raised(gateway: Gateway, tmp_path: Path) -> None:
    source = write(tmp_path, {"narrow": [addx(bytes(50_000), number) for number in range(1, 4)]})
    settings = {"retention.ms": "-1", "max.message.bytes": "1000"}
    with open_target(gateway) as target:
        target.admin.create_topics([NewTopic("narrow", 1, 1, topic_configs=settings)])
    assert [one.outcome for one in run_import(gateway, source)] == [Outcome.IMPORTED]
    assert drain(gateway, "narrow") == [bytes(50_000)] * 3


def test_a_gateway_that_gives_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def __getattr__(self, name: str) -> Any:
            answers: dict[str, Any] = {"beginning_offsets": 0, "end_offsets": 5, "position": 0}
            return lambda *args, **named: (
                dict.fromkeys(args[0], answers[name]) if name.endswith("offsets") else answers.get(name, {})
            )

    monkeypatch.setattr(gateway_queue, "SILENCE_S", 0.0)
    target: Any = SimpleNamespace(consumer=Silent())
    with pytest.raises(TargetRefused, match="does not answer"):
        list(GatewayQueue(target, "q").scan(0))


def test_an_item_that_fits_no_request_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "journals").mkdir()
    source = write(tmp_path / "journals", {"q": [addx(b"small", 1), addx(bytes(3 << 20), 2)]})
    with running_gateway(tmp_path, socket_request_max_bytes="3000000") as gateway:
        (outcome,) = run_import(gateway, source)
    assert outcome.outcome is Outcome.FAILED
    assert "the gateway takes 3,000,000" in (outcome.problem or "")
    assert "socket.request.max.bytes" in (outcome.problem or "")
    with running_gateway(tmp_path) as gateway:
        assert [one.outcome for one in run_import(gateway, source)] == [Outcome.IMPORTED]
        assert [one.verdict for one in verify(gateway, source)] == [Verdict.COMPLETE]


def test_a_ledger_that_cannot_be_looked_at_is_not_an_empty_one() -> None:
    answers: Any = SimpleNamespace(describe_topics=lambda topics: [{"error_code": 5}])
    nobody: Any = None
    target = GatewayTarget(nobody, nobody, answers, nobody)
    with pytest.raises(TargetRefused, match="LEADER_NOT_AVAILABLE"):
        target.completed()


def test_a_ledger_that_another_import_is_making_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes to it before it is there is told that there is no such topic."""
    answers = iter([3, 3, 3, 0])

    def describe(topics: list[str]) -> list[dict[str, int]]:
        return [{"error_code": next(answers)}]

    def create(topics: list[NewTopic]) -> None:
        raise TopicAlreadyExistsError

    monkeypatch.setattr(gateway_target, "LEDGER_PAUSE_S", 0)
    admin: Any = SimpleNamespace(describe_topics=describe, create_topics=create)
    nobody: Any = None
    GatewayTarget(nobody, nobody, admin, nobody).prepare_ledger()
    assert next(answers, None) is None
