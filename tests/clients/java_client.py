"""Java's client behind the form of client.py: one Java process for all that a module opens.

The lines that go to and fro are described in java/ClientRelay.java. What an administrator does is shown by
the scenarios of tests/rig.
"""

from __future__ import annotations

import base64
import functools
import itertools
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.clients.client import (
    HEARTBEAT_MS,
    SESSION_TIMEOUT_MS,
    Admin,
    NewRecord,
    ProducerOptions,
    StoredRecord,
)
from tests.rig.jars import jars
from tests.rig.jvm import CLIENT_OPTIONS, class_path, java_command

__all__ = ["JavaClient", "column", "java_version"]

SOURCE = Path(__file__).parent / "java" / "ClientRelay.java"
COMPILE_DEADLINE_S = 120
END_DEADLINE_S = 30
NULL = "-"


def java_version(jar_set: str) -> str:
    """Of the client in a set of jars. Raises RigUnavailable."""
    (version,) = (
        found[1] for jar in jars(jar_set) if (found := re.match(r"kafka-clients-(.*)\.jar", jar.name))
    )
    return version


def column(jar_set: str) -> str:
    """The client as the table of docs/compatibility.md names it."""
    return f"Java {java_version(jar_set)}"


class _Relay:
    """The process. A command waits for its answer; one that failed there raises here."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._names = map(str, itertools.count())

    def new_name(self) -> str:
        return next(self._names)

    def tell(self, *fields: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(fields) + "\n")

    def ask(self, *fields: str) -> list[str]:
        self.tell(*fields)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.flush()
        outcome, *answer = self._process.stdout.readline().rstrip("\n").split("\t")
        assert outcome == "ok", (fields[0], outcome, answer)
        return answer


class _Producer:
    def __init__(self, relay: _Relay, name: str) -> None:
        self._relay = relay
        self._name = name

    def send(self, topic: str, partition: int, record: NewRecord) -> None:
        stamp = NULL if record.timestamp_ms is None else str(record.timestamp_ms)
        headers = (f"{_text(name.encode())}:{_text(value)}" for name, value in record.headers)
        fields = (topic, str(partition), stamp, _text(record.key), _text(record.value), *headers)
        self._relay.tell("send", self._name, *fields)

    def flush(self) -> list[int]:
        return list(map(int, self._relay.ask("flush", self._name)))


class _Consumer:
    def __init__(self, relay: _Relay, name: str) -> None:
        self._relay = relay
        self._name = name

    def assign(self, topic: str, partition: int, offset: int) -> None:
        self._relay.ask("assign", self._name, topic, str(partition), str(offset))

    def subscribe(self, topic: str) -> None:
        self._relay.ask("subscribe", self._name, topic)

    def poll(self) -> list[StoredRecord]:
        return list(map(_stored, self._relay.ask("poll", self._name)))

    def assignment(self) -> set[int]:
        return set(map(int, self._relay.ask("assignment", self._name)))

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        found = self._relay.ask("time", self._name, topic, str(partition), str(timestamp_ms))
        return int(found[0]) if found else None

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        places = (f"{partition}:{offset}" for partition, offset in offsets.items())
        self._relay.ask("commit", self._name, topic, *places)


class JavaClient:
    """Of one set of jars; started with `running`."""

    name = "Java"
    lacks: frozenset[str] = frozenset()

    def __init__(self, jar_set: str) -> None:
        self._jar_set = jar_set
        self._relay: _Relay | None = None

    @property
    def options(self) -> Sequence[str]:
        """What Java itself is told."""
        return CLIENT_OPTIONS

    @property
    def version(self) -> str:
        return java_version(self._jar_set)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While this runs, it can be used. Raises RigUnavailable."""
        paths = [_compiled(), *jars(self._jar_set)]
        command = java_command(paths, "ClientRelay", options=self.options)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._relay = _Relay(process)
        try:
            yield
        finally:
            self._relay = None
            process.communicate(timeout=END_DEADLINE_S)

    def can_send(self, record: NewRecord) -> bool:
        return True

    @contextmanager
    def producer(self, bootstrap: str, options: ProducerOptions = ProducerOptions()) -> Iterator[_Producer]:  # noqa: B008 - it is frozen
        settings = {
            "bootstrap.servers": bootstrap,
            "compression.type": options.codec,
            "acks": options.acks,
            "enable.idempotence": str(options.idempotent).lower(),
        }
        with self._open("producer", settings) as (relay, name):
            yield _Producer(relay, name)

    @contextmanager
    def consumer(self, bootstrap: str, group: str | None = None) -> Iterator[_Consumer]:
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": "100",
            "session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "heartbeat.interval.ms": str(HEARTBEAT_MS),
        }
        if group is not None:
            settings["group.id"] = group
        with self._open("consumer", settings) as (relay, name):
            yield _Consumer(relay, name)

    def admin(self, bootstrap: str) -> AbstractContextManager[Admin]:
        raise AssertionError("an administrator is shown by the scenarios of tests/rig")

    @contextmanager
    def _open(self, kind: str, settings: Mapping[str, str]) -> Iterator[tuple[_Relay, str]]:
        relay = self._relay
        assert relay is not None, "it does not run"
        name = relay.new_name()
        relay.ask(kind, name, *(f"{key}={value}" for key, value in settings.items()))
        try:
            yield relay, name
        finally:
            relay.ask("close", name)


@functools.cache
def _compiled() -> Path:
    """The relay's class, for every set of jars: what it uses of the client did not change since 3.9."""
    classes = tempfile.TemporaryDirectory(prefix="client-relay-")
    # Kept as long as this process lives.
    _kept.append(classes)
    command = ["javac", "-Xlint:all", "-Werror", "-proc:none", "-d", classes.name]
    done = subprocess.run(
        [*command, "-cp", class_path(jars("clients-3.9")), str(SOURCE)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMPILE_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(classes.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def _stored(text: str) -> StoredRecord:
    partition, offset, timestamp_ms, key, value, *headers = text.split(",")
    pairs = (header.split(":") for header in headers)
    return StoredRecord(
        int(partition),
        int(offset),
        int(timestamp_ms),
        _bytes(key),
        _bytes(value),
        tuple(((_bytes(name) or b"").decode(), _bytes(content)) for name, content in pairs),
    )


def _text(content: bytes | None) -> str:
    return NULL if content is None else base64.b64encode(content).decode()


def _bytes(text: str) -> bytes | None:
    return None if text == NULL else base64.b64decode(text)
