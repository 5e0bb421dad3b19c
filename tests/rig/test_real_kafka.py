"""Where the real Kafka comes from: a container if an engine answers, its jars if not, and always why."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from tests.rig import kafka_container, real_kafka
from tests.rig.jars import JAVA
from tests.rig.kafka_container import IMAGE, PORT, container_problem, environment, running_container
from tests.rig.real_kafka import running_real_kafka
from tests.support.gateway import running_gateway

API_VERSION = '{"ApiVersion": "1.45"}'


@contextmanager
def engine(answers: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Answers requests by the end of their path, everything else with 404; what it was asked."""
    asked: list[str] = []

    class Engine(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            found = [text for end, text in answers.items() if self.path.endswith(end)]
            body = (found[0] if found else '{"message": "there is no such image"}').encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *args: Any) -> None:
            """It says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever).start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
        try:
            yield asked
        finally:
            server.shutdown()


def test_an_engine_that_has_the_image_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    image = f"/images/{IMAGE}/json"
    with engine({"/version": API_VERSION, image: '{"Id": "sha256:1"}'}, monkeypatch) as asked:
        assert container_problem() is None
    assert asked[-1].endswith(image)


def test_an_image_that_cannot_be_had_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine({"/version": API_VERSION}, monkeypatch) as asked:
        problem = container_problem()
    assert problem is not None
    assert problem.startswith(f"no container of {IMAGE}: ")
    assert "there is no such image" in problem
    assert any("/images/create" in line for line in asked)


def test_no_engine_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    problem = container_problem()
    assert problem is not None
    assert problem.startswith(f"no container of {IMAGE}: ")


class _Started(NamedTuple):
    bootstrap: str


@contextmanager
def _jars(directory: Path, properties: Mapping[str, str]) -> Iterator[_Started]:
    yield _Started("from-jars:1")


@contextmanager
def _container(properties: Mapping[str, str]) -> Iterator[str]:
    yield "from-container:1"


@pytest.mark.parametrize(
    ("problem", "bootstrap", "chosen"),
    [
        (None, "from-container:1", f"a container of {IMAGE}"),
        ("there is no engine", "from-jars:1", "its jars (there is no engine)"),
    ],
)
def test_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str | None, bootstrap: str, chosen: str
) -> None:
    monkeypatch.setattr(real_kafka, "running_kafka", _jars)
    monkeypatch.setattr(real_kafka, "running_container", _container)
    with running_real_kafka(tmp_path, {}, lambda: problem) as kafka:
        assert kafka == (bootstrap, chosen)


def test_a_container_has_the_properties_and_is_waited_for_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Container] = []

    class Container:
        """Has a server of ours in it."""

        def __init__(self, image: str, env: Mapping[str, str], ports: list[int]) -> None:
            self.image, self.env, self.ports, self.is_running = image, env, ports, False
            made.append(self)

        def __enter__(self) -> Self:
            self.is_running = True
            return self

        def __exit__(self, *_: object) -> None:
            self.is_running = False

        def get_container_host_ip(self) -> str:
            return gateway.host

        def get_exposed_port(self, port: int) -> int:
            return gateway.port if port == PORT else 0

    monkeypatch.setattr(kafka_container, "DockerContainer", Container)
    with running_gateway(tmp_path) as gateway:
        with running_container({"node.id": "7", "log.retention.ms": "-1"}) as bootstrap:
            assert bootstrap == gateway.bootstrap
            assert made[0].is_running
        (container,) = made
        assert not container.is_running
    assert (container.image, container.ports) == (IMAGE, [PORT])
    assert container.env["KAFKA_NODE_ID"] == "7"
    assert container.env["KAFKA_LOG_RETENTION_MS"] == "-1"
    assert container.env["KAFKA_PROCESS_ROLES"] == "broker,controller"


def test_a_container_that_never_answers_is_told_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    class Container:
        def get_logs(self) -> tuple[bytes, bytes]:
            return b"it says why", b" and more"

    monkeypatch.setattr(kafka_container, "START_DEADLINE_S", 0.0)
    silent: Any = Container()
    with pytest.raises(RuntimeError, match="it says why and more"):
        kafka_container._await_ready(silent, "127.0.0.1", 1)


def test_properties_are_named_as_the_image_wants_them() -> None:
    assert environment({"log.dirs": "/tmp", "a-b_c": "x"}) == {
        "KAFKA_LOG_DIRS": "/tmp",
        "KAFKA_A___B__C": "x",
    }


def test_the_container_and_the_jars_are_the_same_version() -> None:
    pom = (JAVA / "pom-kafka-server.xml").read_text(encoding="utf-8")
    assert f"<version>{IMAGE.rpartition(':')[2]}</version>" in pom
